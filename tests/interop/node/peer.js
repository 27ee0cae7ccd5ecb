// What the peers have in common: the script that they answer by, and the lines
// in which they tell the test what they see.
'use strict';

const readline = require('node:readline');

// Scripts come in on the standard input, a JSON list a line; each line, an empty
// one too, is confirmed. Answers call number n (from 0) with script[n], later
// ones with the last one.
class Script {
  constructor() {
    this.reactions = [{}];
    this.next = 0;
    let lines = 0;
    readline.createInterface({input: process.stdin}).on('line', (line) => {
      if (line !== '') {
        this.reactions = JSON.parse(line);
        this.next = 0;
      }
      tell('heard', ++lines, '');
    });
  }
  nextReaction() {
    return this.reactions[Math.min(this.next++, this.reactions.length - 1)];
  }
}

// A line per event, of fields between tabs. Writing to a pipe is synchronous: a
// call is told before it is answered.
function tell(...fields) {
  process.stdout.write(
      fields.map((field) => String(field).replace(/[\t\n]/g, ' ')).join('\t') +
      '\n');
}

// `metadata` is a list of [key, value].
function tellCall(method, metadata) {
  tell('call', method, ...metadata.map(([key, value]) => `${key}=${value}`));
}

module.exports = {Script, tell, tellCall};

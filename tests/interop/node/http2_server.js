// A bare HTTP/2 server that answers gRPC calls by scripts (peer.js), well or
// badly. What a script has for a call:
//   {}                                  OK, the reply being the request's bytes
//   {"headers": {":status": 503, ...}}  these headers end the stream
//   {"headers": {...}, "body": "text"}  … and then a body does
//   {"headers": {...}, "trailers": {...}}
//   {"reset": 7}                        RST_STREAM with this code
//   {"goaway": 0}                       GOAWAY whose last stream is this number
//   {"goaway": 1, "tcp": "close"}       … and then the connection goes
//   {"tcp": "reset" | "close"}          the connection goes, mid-call
'use strict';

const http2 = require('node:http2');
const net = require('node:net');
const {Duplex} = require('node:stream');
const {Script, tell, tellCall} = require('./peer');

const OK_HEADERS = {':status': 200, 'content-type': 'application/grpc'};

// What an HTTP/2 session gets for its socket, so that the socket itself stays
// ours: a session would hide it.
class Wire extends Duplex {
  constructor(socket) {
    super();
    socket.on('data', (chunk) => {
      if (!this.push(chunk)) socket.pause();
    });
    socket.on('end', () => this.push(null));
    socket.on('error', () => {});
    socket.on('close', () => this.destroy());
    this.socket = socket;
  }
  _read() { this.socket.resume(); }
  _write(chunk, encoding, callback) {
    this.socket.write(chunk, encoding, () => callback());
  }
  _final(callback) { this.socket.end(callback); }
  _destroy(error, callback) {
    this.socket.destroy();
    callback(error);
  }
}

// By hand, because Node never says less than the last stream that it has seen.
// A session writes whole frames only, so that there is room between two.
function goawayFrame(lastStream) {
  const frame = Buffer.alloc(9 + 8);
  frame.writeUIntBE(8, 0, 3);  // length of the payload
  frame.writeUInt8(7, 3);      // GOAWAY; no flags, stream 0
  frame.writeUInt32BE(lastStream, 9);
  frame.writeUInt32BE(http2.constants.NGHTTP2_NO_ERROR, 13);
  return frame;
}

// All of it at once, before anything goes out: trailers are asked for last.
function respond(stream, {headers, body, trailers}) {
  const endStream = body === undefined && trailers === undefined;
  stream.respond(headers, {endStream, waitForTrailers: Boolean(trailers)});
  if (trailers) stream.on('wantTrailers', () => stream.sendTrailers(trailers));
  if (!endStream) stream.end(body);
}

function breakConnection(socket, how) {
  if (how === 'reset') {
    socket.resetAndDestroy();
  } else {
    socket.destroySoon();
  }
}

function react(stream, socket, request, reaction) {
  if (reaction.headers) {
    respond(stream, reaction);
  } else if (reaction.reset !== undefined) {
    stream.close(reaction.reset);
  } else if (reaction.goaway !== undefined || reaction.tcp) {
    if (reaction.goaway !== undefined) {
      socket.write(goawayFrame(reaction.goaway));
    }
    if (reaction.tcp) breakConnection(socket, reaction.tcp);
  } else {
    respond(stream, {
      headers: OK_HEADERS, body: request, trailers: {'grpc-status': '0'},
    });
  }
}

function serve(session, socket, script) {
  session.on('error', () => {});
  session.on('stream', (stream, headers) => {
    const chunks = [];
    stream.on('error', () => {});
    stream.on('data', (chunk) => chunks.push(chunk));
    stream.on('end', () => {
      tellCall(headers[':path'].split('/').pop(), Object.entries(headers));
      react(stream, socket, Buffer.concat(chunks), script.nextReaction());
    });
  });
}

const script = new Script();
const server = net.createServer((socket) => {
  // It never listens itself; it is handed each connection.
  const http = http2.createServer();
  http.on('session', (session) => serve(session, socket, script));
  http.emit('connection', new Wire(socket));
});
server.listen(0, '127.0.0.1', () => tell('listening', server.address().port));

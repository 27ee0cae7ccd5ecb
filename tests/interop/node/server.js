// A grpc-js server of the echo service that answers by scripts (peer.js).
//
//   node server.js ECHO.PROTO
//
// What a script has for a call:
//   {}                            OK, with the request's text
//   {"code": 14, "message": "m"}  this status
//   "initial": {"key": "value"}   response headers of their own; without them a
//                                 status comes as trailers only
//   "trailing": {"key": "value"}  trailing metadata
//   "retryInfoMs": 50             google.rpc.RetryInfo in the status details
'use strict';

const grpc = require('@grpc/grpc-js');
const protobuf = require('protobufjs');
const {loadEchoService} = require('./echo');
const {Script, tell, tellCall} = require('./peer');

const rpc = protobuf.parse(`
  syntax = "proto3";
  package google.rpc;
  message Any { string type_url = 1; bytes value = 2; }
  message Duration { int64 seconds = 1; int32 nanos = 2; }
  message RetryInfo { Duration retry_delay = 1; }
  message Status { int32 code = 1; string message = 2; repeated Any details = 3; }
`, {keepCase: true}).root;

function encode(type, fields) {
  const message = rpc.lookupType(`google.rpc.${type}`);
  return message.encode(message.fromObject(fields)).finish();
}

function detailsWithRetryInfo(code, message, ms) {
  const delay = {seconds: Math.floor(ms / 1000), nanos: (ms % 1000) * 1e6};
  return Buffer.from(encode('Status', {
    code, message,
    details: [{
      type_url: 'type.googleapis.com/google.rpc.RetryInfo',
      value: encode('RetryInfo', {retry_delay: delay}),
    }],
  }));
}

function toMetadata(fields = {}) {
  const metadata = new grpc.Metadata();
  for (const [key, value] of Object.entries(fields)) metadata.add(key, value);
  return metadata;
}

function tellGrpcCall(method, call) {
  const pairs = [];
  for (const [key, values] of Object.entries(call.metadata.toJSON())) {
    for (const value of values) pairs.push([key, value]);
  }
  pairs.push([':time-left-ms', call.getDeadline() - Date.now()]);
  tellCall(method, pairs);
}

function handler(method, script) {
  return (call, callback) => {
    tellGrpcCall(method, call);
    const {code = 0, message = '', initial, trailing, retryInfoMs} =
        script.nextReaction();
    if (initial) call.sendMetadata(toMetadata(initial));
    const metadata = toMetadata(trailing);
    if (code === 0) {
      callback(null, {text: call.request.text}, metadata);
      return;
    }
    if (retryInfoMs !== undefined) {
      metadata.add('grpc-status-details-bin',
                   detailsWithRetryInfo(code, message, retryInfoMs));
    }
    callback({code, details: message, metadata});
  };
}

const [protoFile] = process.argv.slice(2);
const script = new Script();
const server = new grpc.Server();
server.addService(loadEchoService(protoFile).service, {
  Unary: handler('Unary', script),
  Idempotent: handler('Idempotent', script),
  ReadOnly: handler('ReadOnly', script),
});
server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(),
                 (error, port) => {
                   if (error) throw error;
                   tell('listening', port);
                 });

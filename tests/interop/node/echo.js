// The echo service, as grpc-js reads it from its proto.
'use strict';

const grpc = require('@grpc/grpc-js');
const protoLoader = require('@grpc/proto-loader');

function loadEchoService(protoFile) {
  const definition = protoLoader.loadSync(protoFile, {defaults: true});
  return grpc.loadPackageDefinition(definition)
      .retry_guard.testing.EchoService;
}

module.exports = {loadEchoService};

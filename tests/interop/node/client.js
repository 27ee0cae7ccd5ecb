// A stock grpc-js client that makes one call, and tells how it ended.
//
//   node client.js ECHO.PROTO ADDRESS SERVICE_CONFIG METHOD
'use strict';

const grpc = require('@grpc/grpc-js');
const {loadEchoService} = require('./echo');
const {tell} = require('./peer');

const [protoFile, address, serviceConfig, method] = process.argv.slice(2);
const EchoService = loadEchoService(protoFile);
const client = new EchoService(address, grpc.credentials.createInsecure(),
                               {'grpc.service_config': serviceConfig});
const deadline = Date.now() + 20000;
client[method]({text: 'hi'}, {deadline}, (error, reply) => {
  if (error) {
    tell('result', error.code, error.details);
  } else {
    tell('result', grpc.status.OK, reply.text);
  }
  client.close();
});

#!/bin/sh
exec /usr/bin/grpc_cpp_plugin "$@"

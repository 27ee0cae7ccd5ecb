# retry_guard_add_proto(<target> [GRPC] <file.proto>...)
#
# A static library of the generated code. Files are named from proto/, and
# included the same way: "retry_guard/testing/echo.grpc.pb.h".
function(retry_guard_add_proto target)
  cmake_parse_arguments(ARG "GRPC" "" "" ${ARGN})
  set(root "${PROJECT_SOURCE_DIR}/proto")
  set(out "${PROJECT_BINARY_DIR}/gen")
  file(MAKE_DIRECTORY "${out}")
  set(sources)
  foreach(proto IN LISTS ARG_UNPARSED_ARGUMENTS)
    string(REGEX REPLACE "\\.proto$" "" stem "${proto}")
    set(generated "${out}/${stem}.pb.cc" "${out}/${stem}.pb.h")
    set(grpc_arguments)
    set(grpc_plugin)
    if(ARG_GRPC)
      list(APPEND generated "${out}/${stem}.grpc.pb.cc" "${out}/${stem}.grpc.pb.h")
      set(grpc_plugin gRPC::grpc_cpp_plugin)
      set(grpc_arguments "--grpc_out=${out}"
        "--plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin>")
    endif()
    add_custom_command(
      OUTPUT ${generated}
      COMMAND protobuf::protoc "--proto_path=${root}" "--cpp_out=${out}"
              ${grpc_arguments} "${root}/${proto}"
      DEPENDS "${root}/${proto}" protobuf::protoc ${grpc_plugin}
      VERBATIM)
    list(APPEND sources ${generated})
  endforeach()
  list(FILTER sources INCLUDE REGEX "\\.cc$")
  add_library(${target} STATIC ${sources})
  target_include_directories(${target} SYSTEM PUBLIC "${out}")
  target_compile_features(${target} PUBLIC cxx_std_17)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE -w)
  if(ARG_GRPC)
    target_link_libraries(${target} PUBLIC gRPC::grpc++ protobuf::libprotobuf)
  else()
    target_link_libraries(${target} PUBLIC protobuf::libprotobuf)
  endif()
endfunction()

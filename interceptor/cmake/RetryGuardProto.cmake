# retry_guard_add_proto(<target> [GRPC] <file.proto>...)
#
# A static library of the generated code. Files are named from proto/, and
# included the same way: "retry_guard/testing/echo.grpc.pb.h".
#
# retry_guard_add_proto(<target> OBJECTS <library> <file.proto>...)
#
# The same, where <library> has the code in it: <target> is only its headers.
# A proto may be in a program once, or Protobuf ends it at its start.
function(retry_guard_add_proto target)
  cmake_parse_arguments(ARG "GRPC" "OBJECTS" "" ${ARGN})
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
  set(code ${target})
  set(kind STATIC)
  if(ARG_OBJECTS)
    set(code ${ARG_OBJECTS})
    set(kind OBJECT)
    add_library(${target} INTERFACE)
    add_dependencies(${target} ${code})
    target_include_directories(${target} SYSTEM INTERFACE "${out}")
    target_link_libraries(${target} INTERFACE protobuf::libprotobuf)
  endif()
  add_library(${code} ${kind} ${sources})
  target_include_directories(${code} SYSTEM PUBLIC "${out}")
  target_compile_features(${code} PUBLIC cxx_std_17)
  set_target_properties(${code} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${code} PRIVATE -w)
  target_link_libraries(${code} PUBLIC protobuf::libprotobuf)
  if(ARG_GRPC)
    target_link_libraries(${code} PUBLIC gRPC::grpc++)
  endif()
endfunction()

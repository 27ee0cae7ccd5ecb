# What the scripts of this folder share. To be included.

set(STRANGER "${CMAKE_CURRENT_LIST_DIR}/stranger")
set(STATIC_PREFIX "${WORK}/static_prefix")
set(SHARED_PREFIX "${WORK}/shared_prefix")
set(FETCHED "${WORK}/fetched")  # a build of the stranger and the library
set(FOUND "${WORK}/found")      # a build of the stranger alone

# run(<command>...): fails the test if the command fails.
function(run)
  string(REPLACE ";" " " text "${ARGN}")
  message(STATUS "${text}")
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "failed (${result}): ${text}")
  endif()
endfunction()

# Folders that were in the environment must not find what the test is to find.
foreach(name IN ITEMS CMAKE_PREFIX_PATH retry_guard_DIR retry_guard_ROOT
    PKG_CONFIG_PATH LD_LIBRARY_PATH CPATH CPLUS_INCLUDE_PATH LIBRARY_PATH)
  unset(ENV{${name}})
endforeach()

# A list, which no argument of `run` can be.
set(ENV{CMAKE_CXX_COMPILER_LAUNCHER} "${LAUNCHER}")

# configure_stranger(<build> <way> <option>...)
function(configure_stranger build way)
  run("${CMAKE_COMMAND}" -S "${STRANGER}" -B "${build}" -G "${GENERATOR}"
    "-DSTRANGER_GETS_IT_BY=${way}" "-DCMAKE_CXX_COMPILER=${CXX}" ${ARGN})
endfunction()

function(build_and_run_stranger build)
  run("${CMAKE_COMMAND}" --build "${build}" --parallel 2 --target stranger_test)
  run("${build}/stranger_test")
endfunction()

# Without CMake's knowledge of anything: what `pkg-config` says has to do.
#
# run_stranger_by_pkg_config(<prefix> <program> <option of the linker>...)
function(run_stranger_by_pkg_config prefix program)
  find_program(PKG_CONFIG pkg-config REQUIRED)
  set(ENV{PKG_CONFIG_PATH} "${prefix}/${LIBDIR}/pkgconfig")
  execute_process(
    COMMAND "${PKG_CONFIG}" --cflags --libs
      retry_guard_testing retry_guard_interceptor
      grpc++ protobuf gmock gtest_main  # its own
    OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "pkg-config: ${result}")
  endif()
  separate_arguments(flags UNIX_COMMAND "${flags}")
  run("${CXX}" -std=c++17 "-I${FOUND}" "${STRANGER}/stranger_test.cc"
    -o "${program}" "${FOUND}/libgreeter.a" ${flags} ${ARGN})
  run("${program}")
endfunction()

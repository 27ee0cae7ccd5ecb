include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")

file(REMOVE_RECURSE "${FOUND}")
configure_stranger("${FOUND}" find_package "-DCMAKE_PREFIX_PATH=${STATIC_PREFIX}")
build_and_run_stranger("${FOUND}")

# A version that is not there is not found.
file(WRITE "${WORK}/another_version/CMakeLists.txt" [[
cmake_minimum_required(VERSION 3.16)
project(another_version LANGUAGES CXX)
foreach(version IN ITEMS 0.2 1.0)
  find_package(retry_guard ${version} CONFIG QUIET)
  if(retry_guard_FOUND)
    message(FATAL_ERROR "${retry_guard_VERSION} was taken for ${version}")
  endif()
  if(NOT retry_guard_CONSIDERED_VERSIONS)
    message(FATAL_ERROR "no version of retry_guard was seen")
  endif()
endforeach()
]])
run("${CMAKE_COMMAND}" -S "${WORK}/another_version" -B "${WORK}/another_version/build"
  -G "${GENERATOR}" "-DCMAKE_CXX_COMPILER=${CXX}"
  "-DCMAKE_PREFIX_PATH=${STATIC_PREFIX}")

# What this tree installs, in another place than it was installed to.
include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")

set(first "${WORK}/prefix_before_the_move")
file(REMOVE_RECURSE "${first}" "${STATIC_PREFIX}")
run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${first}")
file(RENAME "${first}" "${STATIC_PREFIX}")

# Neither here nor there: the paths of this machine.
file(GLOB_RECURSE texts "${STATIC_PREFIX}/*.cmake" "${STATIC_PREFIX}/*.pc")
if(NOT texts)
  message(FATAL_ERROR "no package files in ${STATIC_PREFIX}")
endif()
foreach(text IN LISTS texts)
  file(READ "${text}" content)
  foreach(path IN ITEMS "${SOURCE}" "${BUILD}" "${first}")
    string(FIND "${content}" "${path}" at)
    if(NOT at EQUAL -1)
      message(FATAL_ERROR "${text} names ${path}")
    endif()
  endforeach()
endforeach()

# The headers are those that users include, and all that these include.
foreach(private IN ITEMS call config)
  if(EXISTS "${STATIC_PREFIX}/include/retry_guard/${private}")
    message(FATAL_ERROR "${private}/ was installed")
  endif()
endforeach()
file(GLOB_RECURSE headers RELATIVE "${STATIC_PREFIX}/include"
  "${STATIC_PREFIX}/include/*.h")
set(all_headers)
foreach(header IN LISTS headers)
  string(APPEND all_headers "#include \"${header}\"\n")
endforeach()
file(WRITE "${WORK}/all_headers.cc" "${all_headers}")
run("${CXX}" -std=c++17 -fsyntax-only "-I${STATIC_PREFIX}/include"
  "${WORK}/all_headers.cc")

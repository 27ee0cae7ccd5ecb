include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")

configure_stranger("${FOUND}" find_package -Uretry_guard_DIR
  "-DCMAKE_PREFIX_PATH=${SHARED_PREFIX}")
build_and_run_stranger("${FOUND}")

# The libraries show what the headers offer, and not what is behind it.
foreach(library IN ITEMS policy interceptor testing)
  set(file "${SHARED_PREFIX}/${LIBDIR}/libretry_guard_${library}.so")
  execute_process(COMMAND "${NM}" -DC --defined-only "${file}"
    OUTPUT_VARIABLE symbols RESULT_VARIABLE result)
  if(NOT result EQUAL 0 OR NOT symbols MATCHES " T retry_guard::")
    message(FATAL_ERROR "${file} shows nothing")
  endif()
  set(hidden "(retry_guard::internal|rapidjson)::")
  if(symbols MATCHES " [A-Z] (vtable for |typeinfo for )?${hidden}[^\n]*")
    message(FATAL_ERROR "${file} shows ${CMAKE_MATCH_0}")
  endif()
endforeach()

include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")

configure_stranger("${FETCHED}" add_subdirectory "-DRETRY_GUARD_SOURCE=${SOURCE}"
  -DBUILD_SHARED_LIBS=ON -DRETRY_GUARD_INSTALL=ON
  -DRETRY_GUARD_PRECOMPILE_HEADERS=ON "-DCMAKE_INSTALL_LIBDIR=${LIBDIR}")
build_and_run_stranger("${FETCHED}")

set(first "${WORK}/prefix_before_the_move")
file(REMOVE_RECURSE "${first}" "${SHARED_PREFIX}")
run("${CMAKE_COMMAND}" --install "${FETCHED}" --prefix "${first}")
file(RENAME "${first}" "${SHARED_PREFIX}")

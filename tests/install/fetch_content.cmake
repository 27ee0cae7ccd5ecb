# Shared libraries, so that this one build serves to install those as well.
include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")

configure_stranger("${FETCHED}" FetchContent "-DRETRY_GUARD_SOURCE=${SOURCE}"
  -DBUILD_SHARED_LIBS=ON -DRETRY_GUARD_INSTALL=ON
  -DRETRY_GUARD_PRECOMPILE_HEADERS=ON "-DCMAKE_INSTALL_LIBDIR=${LIBDIR}")
build_and_run_stranger("${FETCHED}")

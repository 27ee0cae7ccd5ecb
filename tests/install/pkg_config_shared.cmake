include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")

run_stranger_by_pkg_config("${SHARED_PREFIX}" "${WORK}/pkg_config_shared"
  "-Wl,-rpath,${SHARED_PREFIX}/${LIBDIR}")

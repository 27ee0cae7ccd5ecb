"""The libraries that the system has, under the labels that they have upstream."""

def offline_deps(retry_guard = ""):
    """For a WORKSPACE: everything that retry_guard needs, and nothing to download.

    Args:
      retry_guard: where retry_guard is, seen from the WORKSPACE, with a "/" at
        the end; "" if it is the workspace itself.
    """
    for name in [
        # What Bazel 4's own tools load, and would download.
        "remote_coverage_tools",
        "rules_cc",
        "rules_java",
        # What we use.
        "com_github_grpc_grpc",
        "com_google_absl",
        "com_google_googletest",
        "com_google_protobuf",
        "rapidjson",
    ]:
        native.local_repository(
            name = name,
            path = retry_guard + "bazel/offline/" + name,
        )

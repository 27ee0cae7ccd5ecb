"""The generated code of .proto files, by any Bazel since 4, offline as well."""

load("@rules_cc//cc:defs.bzl", "cc_library")

_PROTOC = "@com_google_protobuf//:protoc"
_PLUGIN = "@com_github_grpc_grpc//src/compiler:grpc_cpp_plugin"
_WELL_KNOWN = "@com_google_protobuf//:well_known_type_protos"

# Where a file is depends on whose workspace it is in: the root of its imports
# is what is before its name.
_COMMAND = """
src=$(execpath {src})
set -- "--proto_path=$${{src%/{src}}}"
for known in $(execpaths {well_known}); do
  case $$known in
    */google/protobuf/any.proto)
      set -- "$$@" "--proto_path=$${{known%/google/protobuf/any.proto}}" ;;
  esac
done
$(execpath {protoc}) "$$@" --cpp_out=$(RULEDIR) {grpc} $$src
"""

def cc_proto(name, srcs, grpc = False, **kwargs):
    """A cc_library whose headers are included as the .proto files are imported.

    Args:
      name: of the library.
      srcs: .proto files, named from the package's folder; they may import what
        comes with Protobuf.
      grpc: whether they have services.
      **kwargs: for the cc_library.
    """
    hdrs = []
    code = []
    for src in srcs:
        stem = src[:-len(".proto")]
        endings = [".pb", ".grpc.pb"] if grpc else [".pb"]
        src_hdrs = [stem + ending + ".h" for ending in endings]
        src_code = [stem + ending + ".cc" for ending in endings]
        native.genrule(
            name = stem.replace("/", "_") + "_code",
            srcs = [src, _WELL_KNOWN],
            outs = src_hdrs + src_code,
            tools = [_PROTOC] + ([_PLUGIN] if grpc else []),
            cmd = _COMMAND.format(
                src = src,
                well_known = _WELL_KNOWN,
                protoc = _PROTOC,
                grpc = ("--grpc_out=$(RULEDIR) --plugin=protoc-gen-grpc=" +
                        "$(execpath {})".format(_PLUGIN)) if grpc else "",
            ),
        )
        hdrs.extend(src_hdrs)
        code.extend(src_code)
    cc_library(
        name = name,
        srcs = code,
        hdrs = hdrs,
        # Bazel has the root of a workspace among the includes as it is, and
        # refuses to be told so.
        includes = ["."] if native.package_name() else [],
        deps = ["@com_google_protobuf//:protobuf"] +
               (["@com_github_grpc_grpc//:grpc++"] if grpc else []),
        **kwargs
    )

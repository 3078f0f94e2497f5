"""Argument table of libmlsys, written by tools/gen_bindings.py from the public header."""

import ctypes as C

VERSION = "0.1.0"

OK = 0
E_ARG = 1
E_HANDLE = 2
E_SHAPE = 3
E_DTYPE = 4
E_NOMEM = 5
E_DEVICE = 6
E_NOTFOUND = 7
E_UNSUPPORTED = 8
E_STATE = 9
E_BUSY = 10
E_BUFFER = 11
E_VERSION = 12
E_CALLBACK = 13
E_TIMEOUT = 14
E_INTERNAL = 15
E_IO = 16
E_FORMAT = 17
F64 = 1
F32 = 2
F16 = 3
BF16 = 4
F8E4M3 = 5
F8E5M2 = 6
I64 = 16
I32 = 17
I16 = 18
I8 = 19
U8 = 24
BOOL = 32
Q4_0 = 64
Q4_1 = 67
Q5_0 = 68
Q5_1 = 69
Q8_0 = 70
Q4_K = 72
Q5_K = 73
Q6_K = 74
CPU = 1
CUDA = 2
MAX_DIMS = 8
KIND_CONFIG = 1
KIND_CTX = 2
KIND_DEVICE = 3
KIND_STREAM = 4
KIND_EVENT = 5
KIND_TENSOR = 6
KIND_GRAPH = 7
KIND_PROGRAM = 8
KIND_MODEL = 9
KIND_TOKENIZER = 10
KIND_GENERATOR = 11
KIND_TAPE = 12
KIND_DATASET = 13
KIND_TRAINER = 14
DUMP_GRAPH = 1
DUMP_KERNELS = 2
DUMP_COST = 3
DUMP_MEMPLAN = 4
DUMP_MEMMAP = 5
DUMP_FUSION = 6
DUMP_CODE = 7
DUMP_PASSES = 8
DUMP_PICTURE = 9
LOG_ERROR = 1
LOG_WARN = 2
LOG_INFO = 3
LOG_DEBUG = 4
GENERATOR_TEXT = 65539


class Hooks(C.Structure):
    _fields_ = [
        ("size", C.c_uint64),
        ("user", C.c_void_p),
        ("alloc", C.c_void_p),
        ("dealloc", C.c_void_p),
        ("log", C.c_void_p),
        ("destroy", C.c_void_p),
    ]


class Stats(C.Structure):
    _fields_ = [
        ("size", C.c_uint64),
        ("live_bytes", C.c_uint64),
        ("peak_bytes", C.c_uint64),
        ("allocations", C.c_uint64),
        ("live_handles", C.c_uint64),
    ]


class Opdef(C.Structure):
    _fields_ = [
        ("size", C.c_uint64),
        ("name", C.c_char_p),
        ("user", C.c_void_p),
        ("n_in", C.c_int32),
        ("n_out", C.c_int32),
        ("infer", C.c_void_p),
        ("run", C.c_void_p),
        ("destroy", C.c_void_p),
        ("gradient", C.c_void_p),
    ]


class GradientReport(C.Structure):
    _fields_ = [
        ("size", C.c_uint64),
        ("checked", C.c_int64),
        ("kinks", C.c_int64),
        ("worst", C.c_double),
        ("input", C.c_int32),
        ("reserved", C.c_int32),
        ("element", C.c_int64),
        ("gradient", C.c_double),
        ("difference", C.c_double),
    ]


class Cost(C.Structure):
    _fields_ = [
        ("size", C.c_uint64),
        ("flops", C.c_uint64),
        ("transcendentals", C.c_uint64),
        ("bytes_read", C.c_uint64),
        ("bytes_written", C.c_uint64),
        ("peak_bytes", C.c_uint64),
        ("constant_bytes", C.c_uint64),
        ("kernels", C.c_uint64),
    ]


class TuneProgress(C.Structure):
    _fields_ = [
        ("size", C.c_uint64),
        ("kernel", C.c_char_p),
        ("schedule", C.c_char_p),
        ("number", C.c_int64),
        ("candidates", C.c_int64),
        ("best", C.c_double),
        ("elapsed_ms", C.c_int64),
        ("index", C.c_int32),
        ("kernels", C.c_int32),
    ]


class TuneReport(C.Structure):
    _fields_ = [
        ("size", C.c_uint64),
        ("kernels", C.c_int64),
        ("measured", C.c_int64),
        ("resumed", C.c_int64),
        ("refused", C.c_int64),
        ("different", C.c_int64),
        ("improved", C.c_int64),
        ("default_ns", C.c_double),
        ("best_ns", C.c_double),
        ("elapsed_ms", C.c_int64),
        ("stopped", C.c_int32),
        ("reserved", C.c_int32),
    ]


# name: (result, arguments); a status result is checked by errcheck
FUNCTIONS = {
    "mlsys_version": (C.c_int32, []),
    "mlsys_build_info": (C.c_char_p, []),
    "mlsys_has_feature": (C.c_int32, [C.c_char_p]),
    "mlsys_status_name": (C.c_char_p, [C.c_int32]),
    "mlsys_last_error": (C.c_char_p, []),
    "mlsys_last_status": (None, []),
    "mlsys_set_error": (None, [C.c_int32, C.c_char_p]),
    "mlsys_retain": (None, [C.c_void_p]),
    "mlsys_release": (None, [C.c_void_p]),
    "mlsys_handle_kind": (None, [C.c_void_p, C.c_void_p]),
    "mlsys_config_create": (None, [C.c_void_p]),
    "mlsys_config_set_i64": (None, [C.c_void_p, C.c_char_p, C.c_int64]),
    "mlsys_config_set_f64": (None, [C.c_void_p, C.c_char_p, C.c_double]),
    "mlsys_config_set_str": (None, [C.c_void_p, C.c_char_p, C.c_char_p]),
    "mlsys_config_set_i64s": (None, [C.c_void_p, C.c_char_p, C.c_int32, C.c_void_p]),
    "mlsys_config_get_i64": (None, [C.c_void_p, C.c_char_p, C.c_void_p]),
    "mlsys_config_keys": (None, [C.c_char_p, C.c_void_p, C.c_uint64, C.c_void_p]),
    "mlsys_hooks_init": (None, [C.c_void_p, C.c_uint64]),
    "mlsys_ctx_create": (None, [C.c_void_p, C.c_void_p, C.c_void_p]),
    "mlsys_ctx_read_log": (None, [C.c_void_p, C.c_void_p, C.c_uint64, C.c_void_p]),
    "mlsys_ctx_stats": (None, [C.c_void_p, C.c_void_p]),
    "mlsys_profile_start": (None, [C.c_void_p, C.c_void_p]),
    "mlsys_profile_stop": (None, [C.c_void_p]),
    "mlsys_profile_read": (None, [C.c_void_p, C.c_void_p, C.c_uint64, C.c_void_p]),
    "mlsys_device_count": (None, [C.c_void_p, C.c_int32, C.c_void_p]),
    "mlsys_device_get": (None, [C.c_void_p, C.c_int32, C.c_int32, C.c_void_p]),
    "mlsys_device_describe": (None, [C.c_void_p, C.c_void_p, C.c_uint64, C.c_void_p]),
    "mlsys_stream_create": (None, [C.c_void_p, C.c_void_p, C.c_void_p]),
    "mlsys_stream_sync": (None, [C.c_void_p]),
    "mlsys_stream_scratch_bytes": (None, [C.c_void_p, C.c_void_p]),
    "mlsys_dtype_info": (None, [C.c_int32, C.c_void_p, C.c_void_p, C.c_void_p]),
    "mlsys_tensor_create": (None, [C.c_void_p, C.c_int32, C.c_int32, C.c_void_p, C.c_void_p]),
    "mlsys_tensor_wrap": (
        None,
        [C.c_void_p, C.c_int32, C.c_int32, C.c_void_p, C.c_void_p, C.c_int64, C.c_void_p, C.c_uint64, C.c_void_p, C.c_void_p, C.c_void_p],
    ),
    "mlsys_tensor_view": (
        None,
        [C.c_void_p, C.c_int32, C.c_void_p, C.c_void_p, C.c_int64, C.c_void_p],
    ),
    "mlsys_tensor_permute": (None, [C.c_void_p, C.c_int32, C.c_void_p, C.c_void_p]),
    "mlsys_tensor_transpose": (None, [C.c_void_p, C.c_int32, C.c_int32, C.c_void_p]),
    "mlsys_tensor_slice": (
        None,
        [C.c_void_p, C.c_int32, C.c_int64, C.c_int64, C.c_int64, C.c_void_p],
    ),
    "mlsys_tensor_reverse": (None, [C.c_void_p, C.c_int32, C.c_void_p]),
    "mlsys_tensor_broadcast": (None, [C.c_void_p, C.c_int32, C.c_void_p, C.c_void_p]),
    "mlsys_tensor_reshape": (None, [C.c_void_p, C.c_int32, C.c_void_p, C.c_void_p, C.c_void_p]),
    "mlsys_tensor_shape": (None, [C.c_void_p, C.c_int32, C.c_void_p, C.c_void_p]),
    "mlsys_tensor_strides": (None, [C.c_void_p, C.c_int32, C.c_void_p, C.c_void_p]),
    "mlsys_tensor_dtype": (None, [C.c_void_p, C.c_void_p]),
    "mlsys_tensor_device": (None, [C.c_void_p, C.c_void_p]),
    "mlsys_tensor_bounds": (None, [C.c_void_p, C.c_void_p, C.c_void_p]),
    "mlsys_tensor_layout": (None, [C.c_void_p, C.c_void_p, C.c_void_p]),
    "mlsys_tensor_data": (None, [C.c_void_p, C.c_void_p, C.c_void_p]),
    "mlsys_tensor_storage_id": (None, [C.c_void_p, C.c_void_p]),
    "mlsys_tensor_write": (None, [C.c_void_p, C.c_void_p, C.c_void_p, C.c_uint64]),
    "mlsys_tensor_read": (None, [C.c_void_p, C.c_void_p, C.c_void_p, C.c_uint64]),
    "mlsys_tensor_copy": (None, [C.c_void_p, C.c_void_p, C.c_void_p]),
    "mlsys_tensor_random": (None, [C.c_void_p, C.c_void_p, C.c_char_p, C.c_uint64, C.c_uint64]),
    "mlsys_tensor_to_dlpack": (None, [C.c_void_p, C.c_void_p, C.c_uint64, C.c_void_p]),
    "mlsys_tensor_from_dlpack": (None, [C.c_void_p, C.c_void_p, C.c_void_p, C.c_void_p]),
    "mlsys_dlpack_free": (None, [C.c_void_p]),
    "mlsys_op_run": (
        None,
        [C.c_void_p, C.c_char_p, C.c_int32, C.c_void_p, C.c_void_p, C.c_int32, C.c_void_p],
    ),
    "mlsys_matmul": (None, [C.c_void_p, C.c_void_p, C.c_void_p, C.c_void_p]),
    "mlsys_cast": (None, [C.c_void_p, C.c_void_p, C.c_int32, C.c_void_p]),
    "mlsys_tape_create": (None, [C.c_void_p, C.c_void_p]),
    "mlsys_tape_record": (None, [C.c_void_p, C.c_int32]),
    "mlsys_tape_detach": (None, [C.c_void_p, C.c_void_p]),
    "mlsys_tape_gradient": (
        None,
        [C.c_void_p, C.c_int32, C.c_void_p, C.c_void_p, C.c_int32, C.c_void_p, C.c_void_p],
    ),
    "mlsys_tape_clear": (None, [C.c_void_p]),
    "mlsys_op_list": (None, [C.c_void_p, C.c_void_p, C.c_uint64, C.c_void_p]),
    "mlsys_op_schema": (None, [C.c_void_p, C.c_char_p, C.c_void_p, C.c_uint64, C.c_void_p]),
    "mlsys_opdef_init": (None, [C.c_void_p, C.c_uint64]),
    "mlsys_op_register": (None, [C.c_void_p, C.c_void_p]),
    "mlsys_graph_create": (None, [C.c_void_p, C.c_void_p]),
    "mlsys_graph_symbol": (
        None,
        [C.c_void_p, C.c_char_p, C.c_int64, C.c_int64, C.c_int64, C.c_void_p],
    ),
    "mlsys_graph_dim": (None, [C.c_void_p, C.c_int32, C.c_int64, C.c_int64, C.c_void_p]),
    "mlsys_graph_input": (
        None,
        [C.c_void_p, C.c_char_p, C.c_int32, C.c_int32, C.c_void_p, C.c_void_p],
    ),
    "mlsys_graph_donate": (None, [C.c_void_p, C.c_int64]),
    "mlsys_graph_const": (None, [C.c_void_p, C.c_void_p, C.c_void_p]),
    "mlsys_graph_op": (
        None,
        [C.c_void_p, C.c_char_p, C.c_int32, C.c_void_p, C.c_void_p, C.c_int32, C.c_void_p],
    ),
    "mlsys_graph_control": (
        None,
        [C.c_void_p, C.c_char_p, C.c_void_p, C.c_void_p, C.c_int32, C.c_void_p, C.c_int32, C.c_void_p],
    ),
    "mlsys_graph_output": (None, [C.c_void_p, C.c_char_p, C.c_int64]),
    "mlsys_graph_type": (
        None,
        [C.c_void_p, C.c_int64, C.c_void_p, C.c_int32, C.c_void_p, C.c_void_p],
    ),
    "mlsys_graph_find": (None, [C.c_void_p, C.c_char_p, C.c_void_p]),
    "mlsys_graph_gradient": (
        None,
        [C.c_void_p, C.c_int32, C.c_void_p, C.c_void_p, C.c_int32, C.c_void_p, C.c_void_p, C.c_void_p],
    ),
    "mlsys_graph_tangent": (
        None,
        [C.c_void_p, C.c_int32, C.c_void_p, C.c_void_p, C.c_int32, C.c_void_p, C.c_void_p],
    ),
    "mlsys_graph_narrow": (None, [C.c_void_p, C.c_int32, C.c_void_p, C.c_int32, C.c_void_p]),
    "mlsys_graph_check_gradient": (
        None,
        [C.c_void_p, C.c_int32, C.c_void_p, C.c_void_p, C.c_void_p],
    ),
    "mlsys_graph_verify": (None, [C.c_void_p]),
    "mlsys_graph_print": (None, [C.c_void_p, C.c_void_p, C.c_uint64, C.c_void_p]),
    "mlsys_graph_parse": (None, [C.c_void_p, C.c_char_p, C.c_void_p]),
    "mlsys_graph_interpret": (
        None,
        [C.c_void_p, C.c_void_p, C.c_int32, C.c_void_p, C.c_int32, C.c_void_p],
    ),
    "mlsys_graph_compile": (None, [C.c_void_p, C.c_void_p, C.c_void_p, C.c_void_p]),
    "mlsys_program_run": (
        None,
        [C.c_void_p, C.c_void_p, C.c_int32, C.c_void_p, C.c_int32, C.c_void_p],
    ),
    "mlsys_program_reserve": (None, [C.c_void_p, C.c_void_p, C.c_int32, C.c_void_p, C.c_void_p]),
    "mlsys_program_cost": (None, [C.c_void_p, C.c_int32, C.c_void_p, C.c_void_p, C.c_void_p]),
    "mlsys_program_dump": (None, [C.c_void_p, C.c_int32, C.c_void_p, C.c_uint64, C.c_void_p]),
    "mlsys_program_export": (
        None,
        [C.c_void_p, C.c_char_p, C.c_int32, C.c_void_p, C.c_void_p, C.c_void_p],
    ),
    "mlsys_program_tune": (
        None,
        [C.c_void_p, C.c_int32, C.c_void_p, C.c_void_p, C.c_void_p, C.c_void_p, C.c_void_p, C.c_void_p],
    ),
    "mlsys_dataset_open": (None, [C.c_void_p, C.c_char_p, C.c_void_p, C.c_void_p]),
    "mlsys_dataset_wrap": (None, [C.c_void_p, C.c_int32, C.c_void_p, C.c_void_p, C.c_void_p]),
    "mlsys_dataset_size": (None, [C.c_void_p, C.c_void_p, C.c_void_p]),
    "mlsys_dataset_batch": (None, [C.c_void_p, C.c_int64, C.c_int64, C.c_int32, C.c_void_p]),
    "mlsys_trainer_create": (
        None,
        [C.c_void_p, C.c_int64, C.c_int32, C.c_void_p, C.c_void_p, C.c_void_p, C.c_void_p, C.c_void_p],
    ),
    "mlsys_trainer_step": (None, [C.c_void_p, C.c_int32, C.c_void_p, C.c_void_p]),
    "mlsys_trainer_stat": (None, [C.c_void_p, C.c_char_p, C.c_void_p]),
    "mlsys_trainer_tensor": (None, [C.c_void_p, C.c_char_p, C.c_void_p]),
    "mlsys_trainer_find_nonfinite": (
        None,
        [C.c_void_p, C.c_int32, C.c_void_p, C.c_void_p, C.c_uint64, C.c_void_p],
    ),
    "mlsys_trainer_save": (None, [C.c_void_p, C.c_char_p]),
    "mlsys_trainer_load": (None, [C.c_void_p, C.c_char_p]),
    "mlsys_tensors_save": (
        None,
        [C.c_char_p, C.c_int32, C.c_void_p, C.c_void_p, C.c_int32, C.c_void_p, C.c_void_p],
    ),
    "mlsys_model_open": (None, [C.c_void_p, C.c_char_p, C.c_void_p, C.c_void_p]),
    "mlsys_model_describe": (None, [C.c_void_p, C.c_void_p, C.c_uint64, C.c_void_p]),
    "mlsys_model_meta": (None, [C.c_void_p, C.c_char_p, C.c_void_p, C.c_uint64, C.c_void_p]),
    "mlsys_model_tensor": (None, [C.c_void_p, C.c_char_p, C.c_void_p]),
    "mlsys_model_graph": (None, [C.c_void_p, C.c_void_p, C.c_void_p]),
    "mlsys_model_adapt": (
        None,
        [C.c_void_p, C.c_int32, C.c_void_p, C.c_void_p, C.c_void_p, C.c_void_p],
    ),
    "mlsys_model_save": (None, [C.c_void_p, C.c_char_p, C.c_void_p]),
    "mlsys_model_tokenizer": (None, [C.c_void_p, C.c_void_p]),
    "mlsys_tokenizer_encode": (
        None,
        [C.c_void_p, C.c_char_p, C.c_uint64, C.c_int32, C.c_void_p, C.c_uint64, C.c_void_p],
    ),
    "mlsys_tokenizer_decode": (
        None,
        [C.c_void_p, C.c_void_p, C.c_uint64, C.c_int32, C.c_void_p, C.c_uint64, C.c_void_p],
    ),
    "mlsys_tokenizer_vocab": (None, [C.c_void_p, C.c_void_p]),
    "mlsys_tokenizer_id": (None, [C.c_void_p, C.c_char_p, C.c_void_p]),
    "mlsys_generator_create": (None, [C.c_void_p, C.c_void_p, C.c_void_p, C.c_void_p]),
    "mlsys_generator_chat": (None, [C.c_void_p, C.c_char_p, C.c_char_p]),
    "mlsys_generator_append": (None, [C.c_void_p, C.c_char_p]),
    "mlsys_generator_append_ids": (None, [C.c_void_p, C.c_void_p, C.c_uint64]),
    "mlsys_generator_next": (None, [C.c_void_p, C.c_void_p, C.c_void_p, C.c_uint64, C.c_void_p]),
    "mlsys_generator_logits": (None, [C.c_void_p, C.c_void_p, C.c_uint64]),
    "mlsys_generator_stat": (None, [C.c_void_p, C.c_char_p, C.c_void_p]),
    "mlsys_generator_rewind": (None, [C.c_void_p, C.c_int64]),
}

STRUCT_SIZES = {
    "mlsys_hooks": C.sizeof(Hooks),
    "mlsys_stats": C.sizeof(Stats),
    "mlsys_opdef": C.sizeof(Opdef),
    "mlsys_gradient_report": C.sizeof(GradientReport),
    "mlsys_cost": C.sizeof(Cost),
    "mlsys_tune_progress": C.sizeof(TuneProgress),
    "mlsys_tune_report": C.sizeof(TuneReport),
}

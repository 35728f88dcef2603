"""The way fedsi-cuda will go: NVRTC -> cubin -> cuModuleLoadData -> cuLaunchKernelEx with a cluster of 7 (driver API only)."""
import ctypes as C, glob, time
import numpy as np
L = C.CDLL((glob.glob("/usr/local/cuda*/lib64/libnvrtc.so") + glob.glob("/usr/local/cuda*/targets/x86_64-linux/lib/libnvrtc.so*"))[0])
cu = C.CDLL("libcuda.so.1")
def ok(r, what):
    if r: raise SystemExit(f"{what}: {r}")
here = __file__.rsplit("/", 1)[0]
src, hdr = open(f"{here}/mlp_mc.cu", "rb").read(), open(f"{here}/common.cuh", "rb").read()
p = C.c_void_p(); name = b"mlp_round<1, 0>"
ok(L.nvrtcCreateProgram(C.byref(p), src, b"mlp_mc.cu", 1, (C.c_char_p * 1)(hdr), (C.c_char_p * 1)(b"common.cuh")), "create")
ok(L.nvrtcAddNameExpression(p, name), "name")
opts = [b"--gpu-architecture=sm_90a", b"--std=c++17"]
t = time.time(); ok(L.nvrtcCompileProgram(p, 2, (C.c_char_p * 2)(*opts)), "compile"); print("NVRTC %.2f s" % (time.time() - t))
low = C.c_char_p(); ok(L.nvrtcGetLoweredName(p, name, C.byref(low)), "lowered"); print(low.value.decode())
n = C.c_size_t(); L.nvrtcGetCUBINSize(p, C.byref(n)); cubin = C.create_string_buffer(n.value); L.nvrtcGetCUBIN(p, cubin)
ok(cu.cuInit(0), "init"); dev = C.c_int(); cu.cuDeviceGet(C.byref(dev), 0); ctx = C.c_void_p(); ok(cu.cuDevicePrimaryCtxRetain(C.byref(ctx), dev), "ctx"); ok(cu.cuCtxSetCurrent(ctx), "set")
mod, fn = C.c_void_p(), C.c_void_p(); ok(cu.cuModuleLoadData(C.byref(mod), cubin), "load"); ok(cu.cuModuleGetFunction(C.byref(fn), mod, low), "function")
SMEM = 232304
ok(cu.cuFuncSetAttribute(fn, 8, SMEM), "shared memory")  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
class Config(C.Structure):
    _fields_ = [(k, C.c_uint) for k in ("gx", "gy", "gz", "bx", "by", "bz", "shared")] + [("stream", C.c_void_p), ("attrs", C.c_void_p), ("count", C.c_uint)]
class Attribute(C.Structure):
    _fields_ = [("id", C.c_uint), ("pad", C.c_uint), ("value", C.c_uint * 16)]
def up(a):
    d = C.c_uint64(); ok(cu.cuMemAlloc_v2(C.byref(d), C.c_size_t(a.nbytes)), "alloc"); ok(cu.cuMemcpyHtoD_v2(d, a.ctypes.data_as(C.c_void_p), C.c_size_t(a.nbytes)), "copy"); return d
rng = np.random.default_rng(1); clients, samples, steps, P = 10, 250, 50, 79510
server = up(rng.uniform(-.03, .03, P).astype(np.float32)); X = up(rng.uniform(-1, 1, (clients, samples, 784)).astype(np.float32)); Y = up(rng.integers(0, 10, (clients, samples)).astype(np.int32))
o = np.zeros((clients, steps, 64), np.int32); o[:, :, :50] = rng.integers(0, samples, (clients, steps, 50)); o[:, :, 63] = 50; order = up(o)
out_h = np.full((clients, P), np.nan, np.float32); out = up(out_h); loss_h = np.full((clients, steps), np.nan, np.float32); loss = up(loss_h)
args = [server, X, Y, order, C.c_int(samples), C.c_int(steps), out, loss]
ptrs = (C.c_void_p * len(args))(*[C.cast(C.byref(a), C.c_void_p) for a in args])
at = Attribute(4, 0); at.value[0], at.value[1], at.value[2] = 7, 1, 1  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
cfg = Config(7 * clients, 1, 1, 256, 1, 1, SMEM, None, C.cast(C.pointer(at), C.c_void_p), 1)
best = 9
for _ in range(10):
    t = time.perf_counter(); ok(cu.cuLaunchKernelEx(C.byref(cfg), fn, ptrs, None), "launch"); ok(cu.cuCtxSynchronize(), "sync"); best = min(best, time.perf_counter() - t)
cu.cuMemcpyDtoH_v2(out_h.ctypes.data_as(C.c_void_p), out, C.c_size_t(out_h.nbytes)); cu.cuMemcpyDtoH_v2(loss_h.ctypes.data_as(C.c_void_p), loss, C.c_size_t(loss_h.nbytes))
print("driver API round: %.4f ms, finite %s, mean loss first %.4f last %.4f" % (best * 1e3, np.isfinite(out_h).all() and np.isfinite(loss_h).all(), loss_h[:, 0].mean(), loss_h[:, -1].mean()))

//! The emulator by which kernels are tested on a CPU, on small kernels of its own.
#![allow(clippy::unwrap_used, clippy::panic)]

mod emulator;

use emulator::{Buffer, CompileError, Emulated, Order, argument, philox};
use fedsi_cuda::kernel::{Kernel, Launch};

fn kernel(source: &str, blocks_per_client: u32, threads: u32, shared_bytes: u32, launch: Launch) -> Kernel {
    let source = source.to_owned();
    Kernel { source, entry: "tested", blocks_per_client, threads, shared_bytes, workspace: 0, launch }
}

/// A kernel of one block a client whose argument is one buffer.
fn run(
    source: &str,
    blocks: u32,
    threads: u32,
    shared_bytes: u32,
    values: &mut Vec<f32>,
) -> Option<Result<(), String>> {
    let mut emulated =
        Emulated::compile_or_skip(&kernel(source, 1, threads, shared_bytes, Launch::Cooperative))?;
    let before = values.clone();
    let mut outcomes = Vec::new();
    for order in Order::SEVERAL {
        emulated.order = order;
        let buffer = Buffer::of("values", &before);
        let outcome = emulated.launch_blocks(blocks, &[argument(&buffer.address())]);
        outcomes.push((outcome, buffer.values().iter().map(|value| value.to_bits()).collect::<Vec<_>>()));
        *values = buffer.values();
    }
    let (first, rest) = outcomes.split_first()?;
    if first.0.is_ok() {
        assert!(rest.iter().all(|other| other == first), "the result depends on the order of threads");
    }
    Some(first.0.clone())
}

#[test]
fn sums_by_shuffles_and_static_shared_memory() {
    let source = r#"
        template <int WARPS> __device__ float block_sum(float value) {
            __shared__ float partial[WARPS];
            for (int bits = 16; bits > 0; bits /= 2) value += __shfl_xor_sync(0xffffffffu, value, bits);
            if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
            __syncthreads();
            float sum = 0.0f;
            for (int w = 0; w < WARPS; w++) sum += partial[w];
            __syncthreads();
            return sum;
        }
        extern "C" __global__ void __launch_bounds__(96) tested(float* values) {
            float* own = values + blockIdx.x * blockDim.x;
            float first = block_sum<3>(own[threadIdx.x]);
            float second = block_sum<3>(2.0f * own[threadIdx.x]);
            own[threadIdx.x] = first + second + __shfl_down_sync(0xffffffffu, 1.0f * threadIdx.x, 1);
        }"#;
    let mut values: Vec<f32> = (0..192).map(|i| (i % 17) as f32).collect();
    let expected: Vec<f32> = (0..192)
        .map(|i| {
            let block = i / 96 * 96;
            let next = if i % 32 == 31 { i % 96 } else { i % 96 + 1 };
            3.0 * values[block..block + 96].iter().sum::<f32>() + next as f32
        })
        .collect();
    let Some(outcome) = run(source, 2, 96, 0, &mut values) else { return };
    outcome.unwrap();
    assert_eq!(values, expected);
}

#[test]
fn what_nobody_wrote_is_no_number() {
    let source = r#"
        extern "C" __global__ void tested(float* values) {
            extern __shared__ __align__(16) float memory[];
            if (threadIdx.x < 8) memory[threadIdx.x] = 1.0f;
            __syncthreads();
            values[threadIdx.x] = memory[threadIdx.x];
        }"#;
    let mut values = vec![0.0; 16];
    let Some(outcome) = run(source, 1, 16, 64, &mut values) else { return };
    outcome.unwrap();
    assert!(
        values[..8].iter().all(|&value| value == 1.0) && values[8..].iter().all(|value| value.is_nan()),
        "{values:?}"
    );
}

#[test]
fn writes_behind_dynamic_shared_memory_are_reported() {
    let source = r#"
        extern "C" __global__ void tested(float* values) {
            extern __shared__ float memory[];
            memory[threadIdx.x] = 1.0f;
        }"#;
    let Some(outcome) = run(source, 1, 17, 64, &mut vec![0.0; 16]) else { return };
    assert!(outcome.as_ref().unwrap_err().contains("behind its 64 bytes"), "{outcome:?}");
}

#[test]
#[should_panic(expected = "`values`: a kernel wrote 0 bytes behind its end")]
fn writes_behind_a_buffer_are_reported() {
    let source = r#"extern "C" __global__ void tested(float* values) { values[threadIdx.x] = 1.0f; }"#;
    if run(source, 1, 17, 0, &mut vec![0.0; 16]).is_none() {
        panic!("`values`: a kernel wrote 0 bytes behind its end (not run: there is no C++ compiler)");
    }
}

#[test]
fn blocks_wait_for_each_other() {
    // Each block adds to what its neighbour wrote in the round before.
    let source = r#"
        extern "C" __global__ void tested(float* values) {
            int* counter = (int*)(values + 16);
            int group = gridDim.x;
            for (int round = 0; round < 5; round++) {
                float other = __ldcg(values + 8 * (round & 1) + (blockIdx.x + 1) % group);
                group_barrier(counter, (2 * round + 1) * group, group);
                if (threadIdx.x == 5) __stcg(values + 8 * (1 - (round & 1)) + blockIdx.x, other + 1.0f);
                group_barrier(counter, (2 * round + 2) * group, group);
            }
        }"#;
    let mut values: Vec<f32> = (0..8).map(|i| (10 * i) as f32).chain([0.0; 9]).collect();
    let Some(outcome) = run(source, 8, 33, 0, &mut values) else { return };
    outcome.unwrap();
    let expected: Vec<f32> = (0..8).map(|i| (10 * ((i + 5) % 8) + 5) as f32).collect();
    assert_eq!(values[8..16], expected);
}

#[test]
fn a_barrier_that_some_threads_miss_is_a_deadlock() {
    let source = "
        extern \"C\" __global__ void tested(float* values) {
            if (threadIdx.x < 32) named_barrier(3, 64);
            __syncthreads();
        }";
    let Some(outcome) = run(source, 1, 64, 0, &mut vec![0.0; 4]) else { return };
    let message = outcome.unwrap_err();
    assert!(message.contains("deadlock"), "{message}");
    assert!(message.contains("32 threads (0 to 31) wait for named barrier 3 in line 3"), "{message}");
    assert!(message.contains("32 threads (32 to 63) wait for __syncthreads 0 in line 4"), "{message}");
}

#[test]
fn a_counter_that_is_never_reached_is_a_deadlock() {
    let source = "extern \"C\" __global__ void tested(float* values) { group_barrier((int*)values, 3, 3); }";
    let Some(outcome) = run(source, 2, 32, 0, &mut vec![0.0; 4]) else { return };
    let message = outcome.unwrap_err();
    assert!(
        message.contains("block 1, 1 threads (0 to 0) wait for group_barrier to reach 3 in line 1"),
        "{message}"
    );
}

#[test]
fn lanes_at_different_collectives_are_reported() {
    let source = r#"
        extern "C" __global__ void tested(float* values) {
            float one = 1.0f;
            if (threadIdx.x < 16) one = __shfl_xor_sync(0xffffffffu, one, 1); else __syncwarp();
            values[0] = one;
        }"#;
    let Some(outcome) = run(source, 1, 32, 0, &mut vec![0.0; 4]) else { return };
    let message = outcome.unwrap_err();
    assert!(
        message.contains("calls __syncwarp where other lanes of its warp call __shfl_xor_sync"),
        "{message}"
    );
}

#[test]
fn misaligned_vector_loads_are_reported() {
    let source = r#"
        extern "C" __global__ void tested(float* values) {
            float4 four = __ldg((const float4*)(values + 1));
            values[0] = four.x;
        }"#;
    let Some(outcome) = run(source, 1, 32, 0, &mut vec![0.0; 8]) else { return };
    let message = outcome.unwrap_err();
    assert!(message.contains("line 3") && message.contains("an access of 16 bytes"), "{message}");
}

#[test]
fn tensor_products_are_those_of_truncated_operands() {
    // a: 16 x 8, b: 8 x 8 (rows: k), c: 16 x 8.
    let source = r#"
        extern "C" __global__ void tested(float* values) {
            const float* a = values;
            const float* b = values + 128;
            float* c = values + 192;
            int group = threadIdx.x >> 2, member = threadIdx.x & 3;
            float left[4], right[2], sum[4];
            for (int i = 0; i < 4; i++) left[i] = a[(group + 8 * (i & 1)) * 8 + member + 4 * (i >> 1)];
            for (int i = 0; i < 2; i++) right[i] = b[(member + 4 * i) * 8 + group];
            for (int i = 0; i < 4; i++) sum[i] = c[(group + 8 * (i >> 1)) * 8 + 2 * member + (i & 1)];
            mma_m16n8k8(sum, left, right);
            for (int i = 0; i < 4; i++) c[(group + 8 * (i >> 1)) * 8 + 2 * member + (i & 1)] = sum[i];
        }"#;
    let mut values: Vec<f32> = (0..320).map(|i| (0.37 * f64::from(i)).sin() as f32).collect();
    let truncated = |value: f32| f64::from(f32::from_bits(value.to_bits() & 0xffff_e000));
    let expected: Vec<f64> = (0..128)
        .map(|i| {
            let (row, column) = (i / 8, i % 8);
            f64::from(values[192 + i])
                + (0..8)
                    .map(|k| truncated(values[row * 8 + k]) * truncated(values[128 + k * 8 + column]))
                    .sum::<f64>()
        })
        .collect();
    let Some(outcome) = run(source, 1, 32, 0, &mut values) else { return };
    outcome.unwrap();
    for (i, (&value, &expected)) in values[192..].iter().zip(&expected).enumerate() {
        assert!((f64::from(value) - expected).abs() < 1e-6, "entry {i}: {value} instead of {expected}");
    }
}

#[test]
fn clusters_wait_and_read_each_other() {
    let source = r#"
        extern "C" __global__ void tested(float* values) {
            extern __shared__ float memory[];
            memory[threadIdx.x] = 100.0f * blockIdx.x + threadIdx.x;
            cluster_arrive();
            cluster_wait();
            unsigned int own = (unsigned int)__cvta_generic_to_shared(memory + threadIdx.x);
            unsigned int offset = own & 0xfffff;
            unsigned int other = ((cluster_rank() + 1) % 2) << 20 | offset;
            values[blockIdx.x * blockDim.x + threadIdx.x] = *(float*)shared_pointer(other);
            cluster_arrive();
            cluster_wait();
        }"#;
    let Some(emulated) = Emulated::compile_or_skip(&kernel(source, 2, 32, 128, Launch::Cluster)) else {
        return;
    };
    let buffer = Buffer::of("values", &[0.0_f32; 128]);
    emulated.launch_with(2, &[argument(&buffer.address())]).unwrap();
    let expected: Vec<f32> = (0..128).map(|i| (100 * ((i / 32) ^ 1) + i % 32) as f32).collect();
    assert_eq!(buffer.values(), expected);
}

#[test]
fn draws_are_those_of_the_rust_copy() {
    let source = format!(
        "{}{}",
        include_str!("../kernels/random.cuh"),
        r#"extern "C" __global__ void tested(float* values) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            values[i] = one_normal(0x123456789abcdefull, 3, 2, i, 1);
        }"#
    );
    let mut values = vec![0.0; 4096];
    let Some(outcome) = run(&source, 16, 256, 0, &mut values) else { return };
    outcome.unwrap();
    for (i, &value) in values.iter().enumerate() {
        let expected = philox::one_normal(0x0123_4567_89ab_cdef, 3, 2, i as u32, 1);
        assert!((f64::from(value) - expected).abs() < 2e-6, "draw {i}: {value} instead of {expected}");
    }
    let mean = values.iter().map(|&value| f64::from(value)).sum::<f64>() / 4096.0;
    let variance = values.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>() / 4096.0;
    assert!(
        mean.abs() < 0.06 && (variance - 1.0).abs() < 0.09,
        "mean {mean}, variance {variance} of 4096 draws"
    );
    // Published test vector of Random123: counter and key all ones.
    assert_eq!(philox::philox([u32::MAX; 4], u64::MAX), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
}

#[test]
fn a_source_that_does_not_compile_says_where() {
    let source = "extern \"C\" __global__ void tested(float* values) {\n    values[0] = missing;\n}";
    match Emulated::compile(&kernel(source, 1, 32, 0, Launch::Independent)) {
        Err(CompileError::Source(text)) => assert!(text.contains("kernel.cu:2"), "{text}"),
        Err(CompileError::NoCompiler(_)) => {}
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("a kernel that names what does not exist was compiled"),
    }
}

//! The draws of `kernels/random.cuh`: the same bits, and normals worked out in f64 from the uniforms that f32 gives.

/// Philox4x32-10 of a counter under a key.
pub(crate) fn philox(mut counter: [u32; 4], key: u64) -> [u32; 4] {
    let (mut key0, mut key1) = (key as u32, (key >> 32) as u32);
    for _ in 0..10 {
        let first = u64::from(0xD251_1F53_u32) * u64::from(counter[0]);
        let second = u64::from(0xCD9E_8D57_u32) * u64::from(counter[2]);
        counter = [
            (second >> 32) as u32 ^ counter[1] ^ key0,
            second as u32,
            (first >> 32) as u32 ^ counter[3] ^ key1,
            first as u32,
        ];
        key0 = key0.wrapping_add(0x9E37_79B9);
        key1 = key1.wrapping_add(0xBB67_AE85);
    }
    counter
}

/// Four standard normals of four words.
pub(crate) fn normals(bits: [u32; 4]) -> [f64; 4] {
    let unit = 2.328_306_4e-10_f32;
    let radius = |word: u32| (-2.0 * f64::from((word as f32).mul_add(unit, 0.5 * unit)).ln()).max(0.0).sqrt();
    let angle = |word: u32| (std::f64::consts::PI * f64::from(2.0 * unit * word as f32)).sin_cos();
    let ((sine0, cosine0), (sine1, cosine1)) = (angle(bits[1]), angle(bits[3]));
    let (radius0, radius1) = (radius(bits[0]), radius(bits[2]));
    [radius0 * cosine0, radius0 * sine0, radius1 * cosine1, radius1 * sine1]
}

/// Draw `index` of a layer at a step: `one_normal` of `kernels/random.cuh`.
pub(crate) fn one_normal(key: u64, step: u32, layer: u32, index: u32, purpose: u32) -> f64 {
    normals(philox([index / 4, layer, step, purpose], key))[(index % 4) as usize]
}

//! How the work of a layer is split among the warps of a block: the template arguments of its device functions.

use fedsi_nn::ConvSpec;

use super::{SAMPLES, THREADS, WARPS};

/// Outputs that a warp takes at a time through `linear_forward`: those for which the slowest warp is done soonest. A round
/// of the block costs as much as one and a half outputs more, for its latency.
pub(super) fn outputs_at_once(outputs: usize) -> usize {
    let cost = |at_once: usize| outputs.div_ceil(at_once).div_ceil(WARPS) * (2 * at_once + 3);
    (1..=8).min_by_key(|&at_once| cost(at_once)).unwrap_or(1)
}

/// Groups of threads that share the outputs in `linear_backward`.
pub(super) fn backward_parts(inputs: usize, outputs: usize) -> usize {
    (THREADS / inputs.div_ceil(4)).min(outputs).max(1)
}

/// Floats of scratch that `linear_backward` needs.
pub(super) fn backward_scratch(inputs: usize, outputs: usize) -> usize {
    match backward_parts(inputs, outputs) {
        1 => 0,
        parts => parts * 4 * SAMPLES * inputs.div_ceil(4),
    }
}

/// How many of the eight warps of half a block are side by side over the outputs and over the inputs of a linear layer in
/// phase 2 (`kernels/parameter_steps.cuh`): a warp's tile is 16 outputs by 32 inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinearJob {
    pub(super) output_warps: usize,
    pub(super) input_warps: usize,
}

impl LinearJob {
    /// Floats of a sample that a job stages at most.
    pub(super) const STAGED_FOR_SAMPLE: usize = 8 * 16 + 32 + 16;

    /// All outputs if they are at most 128, with as many inputs as warps are left for; four tiles of inputs at most, which
    /// is what fits where jobs are staged.
    pub(super) fn new(outputs: usize) -> Self {
        let output_warps = outputs.div_ceil(16).next_power_of_two().min(8);
        Self { output_warps, input_warps: (8 / output_warps).min(4) }
    }

    /// Jobs of a layer.
    pub(super) const fn count(&self, inputs: usize, outputs: usize) -> usize {
        inputs.next_multiple_of(4).div_ceil(32 * self.input_warps) * outputs.div_ceil(16 * self.output_warps)
    }
}

/// Sizes of a convolution as `kernels/convolution.cuh` names them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Convolution {
    pub(super) taps: usize,
    pub(super) out: usize,
    /// Pixels of an input channel.
    pixels: usize,
    channels: usize,
    plane: usize,
}

/// Tiles of `convolution_weight_gradient`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WeightGradient {
    pub(super) m_tiles: usize,
    pub(super) splits: usize,
    /// Entries of the table of offsets.
    pub(super) rows: usize,
    pub(super) scratch: usize,
}

impl Convolution {
    pub(super) const fn new(input: &[usize], spec: ConvSpec) -> Self {
        let plane = (input[1] + spec.kernel - 1) * (input[2] + spec.kernel - 1);
        Self {
            taps: input[0] * spec.kernel * spec.kernel,
            out: spec.out,
            pixels: input[1] * input[2],
            channels: input[0],
            plane: (plane + 8).next_multiple_of(16) - 8,
        }
    }

    /// Floats of the staged weights and biases.
    pub(super) const fn staged(&self) -> usize {
        self.out.next_multiple_of(8) * (self.taps.next_multiple_of(8) + 4 + 1)
    }

    /// Parameters.
    pub(super) const fn parameters(&self) -> usize {
        self.out * (self.taps + 1)
    }

    /// The tiles by which the slowest warp is done soonest, among those whose sums fit `limit` floats of scratch.
    pub(super) fn weight_gradient(&self, limit: usize) -> WeightGradient {
        let n_tiles = self.out.div_ceil(8).min(2);
        let n_groups = self.out.div_ceil(8).div_ceil(n_tiles);
        let candidate = |m_tiles: usize| {
            let m_groups = (self.taps + 1).div_ceil(16).div_ceil(m_tiles);
            let rows = 16 * m_tiles * m_groups;
            let each = self.out.next_multiple_of(8) * (rows + 4);
            let groups = m_groups * n_groups;
            let splits = (WARPS / groups.min(WARPS)).min(limit / each).max(1);
            // Instructions of a warp for 8 positions: loads and splits of inputs, products, selections of gradients.
            let work = m_tiles * (4 + 6 * n_tiles) + 4 * n_tiles + 3;
            let cost = (groups * splits).div_ceil(WARPS) * work * 1024 / splits;
            let scratch = if splits > 1 { splits * each } else { 0 };
            (cost, WeightGradient { m_tiles, splits, rows, scratch })
        };
        let best =
            (2..=5).map(candidate).fold(candidate(1), |best, next| if next.0 < best.0 { next } else { best });
        best.1
    }

    /// Floats of one sample's gradient planes.
    const fn planes(&self) -> usize {
        self.out.next_multiple_of(8) * self.plane
    }

    /// Samples whose gradient planes are laid out at a time in `convolution_input_gradient`, within `limit` floats of
    /// scratch (one sample's are, whatever the limit), and the floats they take.
    pub(super) fn input_gradient(&self, limit: usize) -> (usize, usize) {
        let groups = self.channels.div_ceil(8).div_ceil(self.channels.div_ceil(8).min(2));
        let rounds = |samples: usize| ((samples * self.pixels).div_ceil(32) * groups).div_ceil(WARPS);
        // A pass costs as much as a third of a round more, for laying out and waiting.
        let cost = |pass: usize| {
            let passes = (0..SAMPLES).step_by(pass).map(|first| pass.min(SAMPLES - first));
            passes.map(|samples| 3 * rounds(samples) + 1).sum::<usize>()
        };
        let most = (limit / self.planes()).clamp(1, SAMPLES);
        let pass = (1..=most).min_by_key(|&pass| cost(pass)).unwrap_or(1);
        (pass, pass * self.planes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convolution(channels: usize, side: usize, out: usize) -> Convolution {
        let spec = ConvSpec { out, kernel: 5, stride: 1, padding: 0 };
        Convolution::new(&[channels, side, side], spec)
    }

    #[test]
    fn tiles_of_the_papers_network_use_all_warps() {
        let first = convolution(3, 32, 6).weight_gradient(21_000);
        assert_eq!((first.m_tiles, first.splits, first.rows), (5, 16, 80));
        let second = convolution(6, 14, 16);
        assert_eq!((second.weight_gradient(21_000).m_tiles, second.weight_gradient(21_000).splits), (5, 8));
        assert_eq!(second.input_gradient(21_000), (4, 4 * 16 * 328));
        assert_eq!(second.input_gradient(10), (1, 16 * 328), "one sample's planes whatever the limit");
    }

    #[test]
    fn jobs_of_a_linear_layer_fit_where_they_are_staged() {
        for outputs in 1..300 {
            let LinearJob { output_warps, input_warps } = LinearJob::new(outputs);
            let staged = 16 * output_warps + 8 + 32 * input_warps + 8;
            assert!(
                output_warps * input_warps <= 8 && staged <= LinearJob::STAGED_FOR_SAMPLE,
                "{outputs} outputs"
            );
        }
        let count = |inputs, outputs| LinearJob::new(outputs).count(inputs, outputs);
        assert_eq!([count(784, 100), count(100, 10), count(33, 129)], [25, 1, 4]);
    }

    #[test]
    fn warps_share_the_outputs_of_a_linear_layer_evenly() {
        assert_eq!([100, 120, 84, 10].map(outputs_at_once), [7, 8, 6, 1]);
        assert_eq!((backward_parts(400, 120), backward_parts(84, 10), backward_parts(4000, 7)), (5, 10, 1));
        assert_eq!((backward_scratch(400, 120), backward_scratch(4000, 7)), (5 * 1600, 0));
    }
}

//! Mean-field training in f64 by plain loops, with draws that are handed in: the one thing that fedsi-nn's trainer does not
//! take. With the trainer's own draws it gives the trainer's result (`tests/gaussian.rs`).

use fedsi_nn::{
    LayerSet, LayerSpec, Loss, MeanField, Network, Optimizer, OptimizerSpec, PoolSpec, Tape, Targets,
};

/// A distribution under training.
pub(crate) struct Reference {
    network: Network,
    loss: Loss,
    own: Spread,
    reference: Spread,
    weight: f64,
    /// Steps of the reference's optimisers, one in so many.
    follows: Option<usize>,
    optimizers: [Optimizer<f64>; 4],
    steps: usize,
}

struct Spread {
    mean: Vec<f64>,
    rho: Vec<f64>,
}

impl Spread {
    fn of(distribution: &MeanField<f64>) -> Self {
        let rho = distribution.deviation.iter().map(|&s| s + (-(-s).exp_m1()).ln()).collect();
        Self { mean: distribution.mean.clone(), rho }
    }

    fn deviation(&self, p: usize) -> f64 {
        self.rho[p].max(0.0) + (-self.rho[p].abs()).exp().ln_1p()
    }

    /// d deviation / d rho.
    fn slope(&self, p: usize) -> f64 {
        1.0 / (1.0 + (-self.rho[p]).exp())
    }

    fn distribution(&self) -> MeanField<f64> {
        let deviation = (0..self.rho.len()).map(|p| self.deviation(p)).collect();
        MeanField { mean: self.mean.clone(), deviation }
    }
}

/// What a layer kept of the forward pass.
enum Kept {
    /// `e / (2 s)` of every output.
    Factors(Vec<f64>),
    /// Drawn weights, and `e / (2 s)` of every one.
    Weights(Vec<f64>, Vec<f64>),
    Nothing,
}

impl Reference {
    /// Begins at `start`, which is also what it is held to, with weight 0.
    pub(crate) fn new(
        network: &Network,
        layers: &LayerSet,
        loss: Loss,
        optimizer: OptimizerSpec,
        start: &MeanField<f64>,
    ) -> Self {
        let spans = layers.spans(network.layout());
        let fresh = || Optimizer::new(optimizer, spans.clone());
        Self {
            network: network.clone(),
            loss,
            own: Spread::of(start),
            reference: Spread::of(start),
            weight: 0.0,
            follows: None,
            optimizers: [fresh(), fresh(), fresh(), fresh()],
            steps: 0,
        }
    }

    /// Held to `reference` by `weight` times the divergence; every `follows` steps the reference moves too.
    pub(crate) fn held_to(mut self, reference: &MeanField<f64>, weight: f64, follows: Option<usize>) -> Self {
        self.reference = Spread::of(reference);
        (self.weight, self.follows) = (weight, follows);
        self
    }

    pub(crate) fn distribution(&self) -> MeanField<f64> {
        self.own.distribution()
    }

    pub(crate) fn reference(&self) -> MeanField<f64> {
        self.reference.distribution()
    }

    /// One step; `draws(layer, count)` are the layer's draws. Returns the batch's mean loss.
    pub(crate) fn step(
        &mut self,
        inputs: &[f64],
        targets: Targets<'_, f64>,
        rows: &[u32],
        mut draws: impl FnMut(usize, usize) -> Vec<f64>,
    ) -> f64 {
        let network = self.network.clone();
        let (specs, layout, width) = (network.specs(), network.layout(), network.inputs());
        let mut shapes = vec![network.input_shape().to_vec()];
        let mut values: Vec<Vec<f64>> =
            vec![rows.iter().flat_map(|&row| inputs[row as usize * width..][..width].to_vec()).collect()];
        let mut kept = Vec::new();
        for (index, spec) in specs.iter().enumerate() {
            let (shape, x, own) = (&shapes[index], &values[index], layout.of_layer(index));
            let (mean, deviation): (Vec<f64>, Vec<f64>) =
                own.map(|p| (self.own.mean[p], self.own.deviation(p))).unzip();
            let (y, after, keep) = match spec {
                LayerSpec::Linear(outputs) => {
                    let inputs = shape.iter().product::<usize>();
                    let draws = draws(index, rows.len() * outputs);
                    let mut factors = Vec::new();
                    let mut y = Vec::new();
                    for (s, x) in x.chunks(inputs).enumerate() {
                        for o in 0..*outputs {
                            let weights = o * inputs..(o + 1) * inputs;
                            let (bias, draw) = (inputs * outputs + o, draws[s * outputs + o]);
                            let sum: f64 = mean[weights.clone()].iter().zip(x).map(|(w, x)| w * x).sum();
                            let variance: f64 =
                                deviation[weights].iter().zip(x).map(|(d, x)| d * d * x * x).sum();
                            let spread = (variance + deviation[bias].powi(2)).sqrt();
                            y.push(sum + mean[bias] + spread * draw);
                            factors.push(draw / (2.0 * spread));
                        }
                    }
                    (y, vec![*outputs], Kept::Factors(factors))
                }
                LayerSpec::Conv(conv) => {
                    let draws = draws(index, mean.len());
                    let drawn: Vec<f64> =
                        (0..mean.len()).map(|p| mean[p] + deviation[p] * draws[p]).collect();
                    let factors = (0..mean.len()).map(|p| draws[p] / (2.0 * deviation[p])).collect();
                    let side = |side: usize| (side + 2 * conv.padding - conv.kernel) / conv.stride + 1;
                    let after = vec![conv.out, side(shape[1]), side(shape[2])];
                    let mut y = vec![0.0; rows.len() * after.iter().product::<usize>()];
                    let biases = drawn.len() - conv.out;
                    for (at, y) in y.iter_mut().enumerate() {
                        *y = drawn[biases + at / (after[1] * after[2]) % conv.out];
                    }
                    taps(spec, shape, &after, rows.len(), |at, from, weight| {
                        y[at] += drawn[weight] * x[from]
                    });
                    (y, after, Kept::Weights(drawn, factors))
                }
                LayerSpec::MaxPool(pool) | LayerSpec::AvgPool(pool) => {
                    let (windows, after) = windows(shape, *pool, rows.len());
                    let y = windows.iter().map(|window| {
                        shares(spec, window, x).iter().zip(window).map(|(w, &i)| w * x[i]).sum()
                    });
                    (y.collect(), after, Kept::Nothing)
                }
                LayerSpec::Flatten => (x.clone(), vec![shape.iter().product()], Kept::Nothing),
                function => (apply(function, x), shape.clone(), Kept::Nothing),
            };
            values.push(y);
            shapes.push(after);
            kept.push(keep);
        }
        let (loss, mut gradient) = self.loss_gradient(&values[specs.len()], targets, rows);
        let parameters = layout.len();
        let (mut in_mean, mut in_variance) = (vec![0.0; parameters], vec![0.0; parameters]);
        for (index, spec) in specs.iter().enumerate().rev() {
            let (shape, x, own) = (&shapes[index], &values[index], layout.of_layer(index));
            let mut dx = vec![0.0; x.len()];
            match (spec, &kept[index]) {
                (LayerSpec::Linear(outputs), Kept::Factors(factors)) => {
                    let inputs = shape.iter().product::<usize>();
                    for (at, &dy) in gradient.iter().enumerate() {
                        let (s, o) = (at / outputs, at % outputs);
                        let slope = dy * factors[at];
                        for i in 0..inputs {
                            let (p, from) = (own.start + o * inputs + i, s * inputs + i);
                            in_mean[p] += dy * x[from];
                            in_variance[p] += slope * x[from] * x[from];
                            dx[from] +=
                                dy * self.own.mean[p] + 2.0 * x[from] * slope * self.own.deviation(p).powi(2);
                        }
                        in_mean[own.start + inputs * outputs + o] += dy;
                        in_variance[own.start + inputs * outputs + o] += slope;
                    }
                }
                (LayerSpec::Conv(conv), Kept::Weights(drawn, factors)) => {
                    let after = &shapes[index + 1];
                    taps(spec, shape, after, rows.len(), |at, from, weight| {
                        in_mean[own.start + weight] += gradient[at] * x[from];
                        dx[from] += gradient[at] * drawn[weight];
                    });
                    let biases = own.end - conv.out;
                    for (at, &dy) in gradient.iter().enumerate() {
                        in_mean[biases + at / (after[1] * after[2]) % conv.out] += dy;
                    }
                    for (weight, p) in own.enumerate() {
                        in_variance[p] = in_mean[p] * factors[weight];
                    }
                }
                (LayerSpec::MaxPool(pool) | LayerSpec::AvgPool(pool), _) => {
                    let (windows, _) = windows(shape, *pool, rows.len());
                    for (window, &dy) in windows.iter().zip(&gradient) {
                        for (share, &from) in shares(spec, window, x).iter().zip(window) {
                            dx[from] += share * dy;
                        }
                    }
                }
                (LayerSpec::Flatten, _) => dx.clone_from(&gradient),
                (function, _) => {
                    let (above, below): (Vec<f64>, Vec<f64>) = x.iter().map(|x| (x + 1e-6, x - 1e-6)).unzip();
                    let (above, below) = (apply(function, &above), apply(function, &below));
                    for (i, dx) in dx.iter_mut().enumerate() {
                        *dx = gradient[i] * (above[i] - below[i]) / 2e-6;
                    }
                }
            }
            gradient = dx;
        }
        self.update(in_mean, &in_variance);
        loss
    }

    /// The gradient of `weight KL(q || p)` added, and the optimisers' steps.
    fn update(&mut self, mut in_mean: Vec<f64>, in_variance: &[f64]) {
        let count = in_mean.len();
        let mut in_rho = vec![0.0; count];
        for p in 0..count {
            let (s, t) = (self.own.deviation(p), self.reference.deviation(p));
            in_mean[p] += self.weight * (self.own.mean[p] - self.reference.mean[p]) / (t * t);
            in_rho[p] =
                self.own.slope(p) * (2.0 * s * in_variance[p] + self.weight * (s / (t * t) - 1.0 / s));
        }
        let [of_mean, of_rho, of_reference_mean, of_reference_rho] = &mut self.optimizers;
        of_mean.step(&mut self.own.mean, &in_mean);
        of_rho.step(&mut self.own.rho, &in_rho);
        self.steps += 1;
        if self.follows.is_some_and(|inner| self.steps.is_multiple_of(inner)) {
            for p in 0..count {
                let (s, t) = (self.own.deviation(p), self.reference.deviation(p));
                let gap = self.reference.mean[p] - self.own.mean[p];
                in_mean[p] = gap / (t * t);
                in_rho[p] = self.reference.slope(p) * (1.0 / t - (s * s + gap * gap) / (t * t * t));
            }
            of_reference_mean.step(&mut self.reference.mean, &in_mean);
            of_reference_rho.step(&mut self.reference.rho, &in_rho);
        }
    }

    fn loss_gradient(&self, outputs: &[f64], targets: Targets<'_, f64>, rows: &[u32]) -> (f64, Vec<f64>) {
        let (width, share) = (self.network.outputs(), 1.0 / rows.len() as f64);
        let (mut loss, mut gradient) = (0.0, Vec::new());
        for (outputs, &row) in outputs.chunks(width).zip(rows) {
            match (self.loss, targets) {
                (Loss::CrossEntropy, Targets::Classes(classes)) => {
                    let label = classes[row as usize] as usize;
                    let total: f64 = outputs.iter().map(|o| o.exp()).sum();
                    loss += share * (total.ln() - outputs[label]);
                    gradient.extend(
                        (0..width)
                            .map(|i| share * (outputs[i].exp() / total - f64::from(u8::from(i == label)))),
                    );
                }
                (Loss::Gaussian { noise }, Targets::Values(values)) => {
                    for (i, output) in outputs.iter().enumerate() {
                        let residual = output - values[row as usize * width + i];
                        loss += share * residual * residual / (2.0 * noise * noise);
                        gradient.push(share * residual / (noise * noise));
                    }
                }
                _ => panic!("targets of the other loss"),
            }
        }
        (loss, gradient)
    }
}

/// Every product of a convolution: (output, input, weight), each an index into the batch's values or the layer's weights.
fn taps(
    spec: &LayerSpec,
    shape: &[usize],
    after: &[usize],
    batch: usize,
    mut product: impl FnMut(usize, usize, usize),
) {
    let LayerSpec::Conv(conv) = spec else { return };
    let (channels, height, width) = (shape[0], shape[1], shape[2]);
    for at in 0..batch * after.iter().product::<usize>() {
        let (column, row) = (at % after[2], at / after[2] % after[1]);
        let (out, s) = (at / (after[1] * after[2]) % conv.out, at / after.iter().product::<usize>());
        for weight in 0..channels * conv.kernel * conv.kernel {
            let (dx, dy, channel) = (
                weight % conv.kernel,
                weight / conv.kernel % conv.kernel,
                weight / (conv.kernel * conv.kernel),
            );
            let (y, x) = (row * conv.stride + dy, column * conv.stride + dx);
            if y >= conv.padding && x >= conv.padding && y - conv.padding < height && x - conv.padding < width
            {
                let from = ((s * channels + channel) * height + y - conv.padding) * width + x - conv.padding;
                product(at, from, out * channels * conv.kernel * conv.kernel + weight);
            }
        }
    }
}

/// The inputs of every output of a pooling layer, and the shape after it.
fn windows(shape: &[usize], pool: PoolSpec, batch: usize) -> (Vec<Vec<usize>>, Vec<usize>) {
    let side = |side: usize| (side - pool.window) / pool.stride + 1;
    let after = vec![shape[0], side(shape[1]), side(shape[2])];
    let mut found = Vec::new();
    for plane in 0..batch * shape[0] {
        for row in 0..after[1] {
            for column in 0..after[2] {
                let corner = (plane * shape[1] + row * pool.stride) * shape[2] + column * pool.stride;
                found.push(
                    (0..pool.window * pool.window)
                        .map(|i| corner + i / pool.window * shape[2] + i % pool.window)
                        .collect(),
                );
            }
        }
    }
    (found, after)
}

/// How much each input of a window counts.
fn shares(spec: &LayerSpec, window: &[usize], x: &[f64]) -> Vec<f64> {
    if matches!(spec, LayerSpec::AvgPool(_)) {
        return vec![1.0 / window.len() as f64; window.len()];
    }
    let best = window
        .iter()
        .enumerate()
        .fold(0, |best, (place, &i)| if x[i] > x[window[best]] { place } else { best });
    (0..window.len()).map(|place| f64::from(u8::from(place == best))).collect()
}

/// An activation, by fedsi-nn.
fn apply(function: &LayerSpec, x: &[f64]) -> Vec<f64> {
    let network = Network::new(&[x.len()], &[function.clone(), LayerSpec::Linear(1)]).unwrap();
    let mut tape = Tape::new(&network, 1);
    tape.inputs_mut(&network, 1).copy_from_slice(x);
    tape.forward_body(&network, &vec![0.0; network.layout().len()]).to_vec()
}

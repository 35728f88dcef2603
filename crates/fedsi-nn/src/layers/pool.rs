//! Max and average pooling over square windows.

use crate::Scalar;
use crate::scalar::vectorised;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolKind {
    Max,
    Average,
}

/// Windows that lie wholly within the image (PyTorch's `ceil_mode = False`, no padding).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pool {
    pub(crate) kind: PoolKind,
    pub(crate) channels: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) window: usize,
    pub(crate) stride: usize,
    pub(crate) out_height: usize,
    pub(crate) out_width: usize,
}

impl Pool {
    const fn inputs(&self) -> usize {
        self.channels * self.height * self.width
    }

    pub(crate) const fn outputs(&self) -> usize {
        self.channels * self.out_height * self.out_width
    }

    /// `winners` receives, for max pooling, which input of the sample each output came from (the first of
    /// equals, as in PyTorch).
    pub(crate) fn forward<T: Scalar>(&self, x: &[T], y: &mut [T], batch: usize, winners: &mut [u32]) {
        let samples = x.chunks_exact(self.inputs()).zip(y.chunks_exact_mut(self.outputs())).take(batch);
        match self.kind {
            PoolKind::Max => {
                for ((image, output), winners) in samples.zip(winners.chunks_exact_mut(self.outputs())) {
                    vectorised(
                        #[inline(always)]
                        || self.maximum(image, output, winners),
                    );
                }
            }
            PoolKind::Average => {
                for (image, output) in samples {
                    vectorised(
                        #[inline(always)]
                        || self.average(image, output),
                    );
                }
            }
        }
    }

    pub(crate) fn input_gradient<T: Scalar>(&self, dy: &[T], dx: &mut [T], batch: usize, winners: &[u32]) {
        dx[..batch * self.inputs()].fill(T::zero());
        let samples = dy.chunks_exact(self.outputs()).zip(dx.chunks_exact_mut(self.inputs())).take(batch);
        match self.kind {
            PoolKind::Max => {
                for ((output, image), winners) in samples.zip(winners.chunks_exact(self.outputs())) {
                    vectorised(
                        #[inline(always)]
                        || {
                            for (&value, &winner) in output.iter().zip(winners) {
                                image[winner as usize] += value;
                            }
                        },
                    );
                }
            }
            PoolKind::Average => {
                let share = T::of(1.0 / (self.window * self.window) as f64);
                for (output, image) in samples {
                    for (&value, corner) in output.iter().zip(self.corners()) {
                        for line in image[corner..].chunks_mut(self.width).take(self.window) {
                            for pixel in &mut line[..self.window] {
                                *pixel += value * share;
                            }
                        }
                    }
                }
            }
        }
    }

    /// The first input of every output's window, in the order of the outputs.
    fn corners(&self) -> impl Iterator<Item = usize> {
        let Self { channels, height, width, stride, out_height, out_width, .. } = *self;
        (0..channels).flat_map(move |channel| {
            (0..out_height).flat_map(move |row| {
                let line = (channel * height + row * stride) * width;
                (0..out_width).map(move |column| line + column * stride)
            })
        })
    }

    #[inline(always)]
    fn maximum<T: Scalar>(&self, image: &[T], output: &mut [T], winners: &mut [u32]) {
        let lines = output.chunks_exact_mut(self.out_width).zip(winners.chunks_exact_mut(self.out_width));
        for (index, (output, winners)) in lines.enumerate() {
            let (channel, row) = (index / self.out_height, index % self.out_height);
            let line = (channel * self.height + row * self.stride) * self.width;
            if (self.window, self.stride) == (2, 2) {
                self.maximum_of_pairs(image, line, output, winners);
                continue;
            }
            for (column, (value, winner)) in output.iter_mut().zip(winners).enumerate() {
                let corner = line + column * self.stride;
                let mut best = (image[corner], corner);
                for y in 0..self.window {
                    let start = corner + y * self.width;
                    for (x, &pixel) in image[start..start + self.window].iter().enumerate() {
                        best = larger(best, (pixel, start + x));
                    }
                }
                (*value, *winner) = (best.0, best.1 as u32);
            }
        }
    }

    /// The usual pooling, two by two side by side, in a form that compiles to vector instructions.
    #[inline(always)]
    fn maximum_of_pairs<T: Scalar>(&self, image: &[T], line: usize, output: &mut [T], winners: &mut [u32]) {
        let upper = image[line..line + self.width].chunks_exact(2);
        let lower = image[line + self.width..line + 2 * self.width].chunks_exact(2);
        let (start, width) = (line as u32, self.width as u32);
        for (column, (((value, winner), upper), lower)) in
            output.iter_mut().zip(winners).zip(upper).zip(lower).enumerate()
        {
            let corner = start + 2 * column as u32;
            let top = larger((upper[0], corner), (upper[1], corner + 1));
            let bottom = larger((lower[0], corner + width), (lower[1], corner + width + 1));
            (*value, *winner) = larger(top, bottom);
        }
    }

    #[inline(always)]
    fn average<T: Scalar>(&self, image: &[T], output: &mut [T]) {
        let share = T::of(1.0 / (self.window * self.window) as f64);
        for (value, corner) in output.iter_mut().zip(self.corners()) {
            let mut sum = T::zero();
            for line in image[corner..].chunks(self.width).take(self.window) {
                for &pixel in &line[..self.window] {
                    sum += pixel;
                }
            }
            *value = sum * share;
        }
    }
}

/// The first of equals. Selections, not branches: which pixel wins is unpredictable.
#[inline(always)]
fn larger<T: Scalar, I>(first: (T, I), second: (T, I)) -> (T, I) {
    let wins = second.0 > first.0;
    (if wins { second.0 } else { first.0 }, if wins { second.1 } else { first.1 })
}

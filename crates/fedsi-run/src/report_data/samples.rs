//! Test samples with the highest entropy, or wrong with the highest confidence.

use fedsi_data::{Federation, Split};
use fedsi_fl::client::Predictions;
use fedsi_metrics::entropy;

use super::{MAX_CLIENTS_WITH_SAMPLES, SAMPLES_OF_A_KIND, Sample, SampleKind};

/// Pixels of the longer side of a kept image.
pub(super) const LONGEST_SIDE: usize = 64;

const KINDS: [SampleKind; 2] = [SampleKind::LeastCertain, SampleKind::ConfidentlyWrong];

/// Gathers the most striking samples, client after client. Memory: a dozen samples for each of a few clients, or a
/// dozen in all where there are many.
#[derive(Debug, Default)]
pub(crate) struct SamplePicker {
    picked: Vec<Sample>,
}

impl SamplePicker {
    /// Adds the most striking of a client's predictions, with how strange their inputs are where that is known. `clients` is
    /// how many there are in all.
    pub(crate) fn add(
        &mut self,
        client: usize,
        clients: usize,
        predictions: &Predictions,
        strangeness: Option<&[f64]>,
    ) {
        let Predictions::Classes { classes, probabilities, labels } = predictions else { return };
        let Ok(checked) = fedsi_metrics::Predictions::new(probabilities, labels, *classes) else { return };
        for kind in KINDS {
            let rows = checked.rows().enumerate();
            let wanted = rows.filter(|(_, row)| kind == SampleKind::LeastCertain || !row.is_correct());
            let found = wanted.map(|(index, row)| Sample {
                client,
                index,
                kind,
                label: row.label(),
                probabilities: row.probabilities().to_vec(),
                strangeness: strangeness.and_then(|all| all.get(index)).map(|&score| score as f32),
                pixels: Vec::new(),
                id: None,
                row: None,
                cells: Vec::new(),
            });
            // Scored before any copy would be cheaper still; predicting a sample costs a thousand times as much.
            self.picked.extend(top_samples(found.collect()));
        }
        if clients > MAX_CLIENTS_WITH_SAMPLES {
            let (unsure, wrong) = self.picked.drain(..).partition(|one| one.kind == SampleKind::LeastCertain);
            self.picked.extend(top_samples(unsure));
            self.picked.extend(top_samples(wrong));
        }
    }

    /// The samples, with their rows, ids and cells where the data is a table, and their pixels where inputs are images of
    /// this shape: large ones are made smaller. Makes the test data of their clients once more.
    pub(super) fn finish(mut self, federation: &dyn Federation, image: Option<[usize; 3]>) -> Vec<Sample> {
        let width: usize = federation.input_shape().iter().product();
        let mut owners: Vec<usize> = self.picked.iter().map(|sample| sample.client).collect();
        owners.sort_unstable();
        owners.dedup();
        for owner in owners {
            let test = federation.samples(owner, Split::Test);
            let own = || self.picked.iter().filter(|sample| sample.client == owner);
            let shown = test.select(&own().map(|sample| sample.index).collect::<Vec<_>>());
            if shown.count != own().count() {
                continue;
            }
            let rows = federation.row_numbers(owner, Split::Test);
            let picked = self.picked.iter_mut().filter(|sample| sample.client == owner);
            for (sample, input) in picked.zip(shown.inputs.chunks_exact(width.max(1))) {
                let row = rows.and_then(|rows| rows.get(sample.index)).copied();
                sample.row = row.map(|row| row as usize);
                sample.id = row.and_then(|row| federation.row_id(row));
                sample.cells = row.and_then(|row| federation.row_cells(row)).unwrap_or_default();
                sample.pixels = image.map(|shape| pixels(&smaller(input, shape))).unwrap_or_default();
            }
        }
        self.picked
    }
}

/// The first few, the most striking first; among equals the order stays.
fn top_samples(mut samples: Vec<Sample>) -> Vec<Sample> {
    let score = |sample: &Sample| match sample.kind {
        SampleKind::LeastCertain => entropy(&sample.probabilities),
        SampleKind::ConfidentlyWrong => f64::from(sample.probabilities.iter().copied().fold(0.0, f32::max)),
    };
    samples.sort_by(|a, b| score(b).total_cmp(&score(a)));
    samples.truncate(SAMPLES_OF_A_KIND);
    samples
}

/// Pixels of a side that become one.
const fn block([_, height, width]: [usize; 3]) -> usize {
    let longest = if height > width { height } else { width };
    longest.div_ceil(LONGEST_SIDE)
}

/// The shape in which images of this shape are kept.
pub(super) const fn kept_shape(shape: [usize; 3]) -> [usize; 3] {
    let [channels, height, width] = shape;
    [channels, height.div_ceil(block(shape)), width.div_ceil(block(shape))]
}

/// An image in the shape in which it is kept: squares of pixels as their mean.
fn smaller(values: &[f32], shape: [usize; 3]) -> Vec<f32> {
    let ([_, height, width], [channels, rows, columns], side) = (shape, kept_shape(shape), block(shape));
    let (mut sums, mut counts) =
        (vec![0.0; channels * rows * columns], vec![0.0_f32; channels * rows * columns]);
    for (place, value) in values.iter().enumerate() {
        let (channel, row, column) = (place / (height * width), place / width % height, place % width);
        let cell = (channel * rows + row / side) * columns + column / side;
        sums[cell] += value;
        counts[cell] += 1.0;
    }
    sums.iter().zip(&counts).map(|(sum, count)| sum / count).collect()
}

/// Inputs as grey levels. Those scaled to [-1, 1] keep their brightness; others are stretched to what is there.
fn pixels(values: &[f32]) -> Vec<u8> {
    let range = values.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(a, b), &v| (a.min(v), b.max(v)));
    let (lo, hi) = if range.0 >= -1.001 && range.1 <= 1.001 { (-1.0, 1.0) } else { range };
    let scale = if hi > lo { 255.0 / (hi - lo) } else { 0.0 };
    // `as` saturates, and NaN becomes black.
    values.iter().map(|&value| ((value - lo) * scale).round() as u8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predictions(rows: &[[f32; 2]], labels: &[u32]) -> Predictions {
        Predictions::Classes { classes: 2, probabilities: rows.concat(), labels: labels.to_vec() }
    }

    #[test]
    fn the_least_certain_and_the_most_confidently_wrong_come_first() {
        let mut picker = SamplePicker::default();
        let rows = predictions(&[[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.5, 0.5]], &[0, 1, 0, 0]);
        picker.add(3, 1, &rows, Some(&[0.5, 1.5, 2.5, 3.5]));
        let of = |kind| -> Vec<usize> {
            picker.picked.iter().filter(|one| one.kind == kind).map(|one| one.index).collect()
        };
        assert_eq!(of(SampleKind::LeastCertain), [3, 1, 2, 0]);
        assert_eq!(of(SampleKind::ConfidentlyWrong), [2, 1]);
        assert_eq!(picker.picked[0].strangeness, Some(3.5));
    }

    #[test]
    fn many_clients_keep_a_dozen_in_all() {
        let mut picker = SamplePicker::default();
        for client in 0..200 {
            let p = 0.5 + client as f32 / 500.0;
            picker.add(client, 200, &predictions(&[[p, 1.0 - p]; 3], &[0, 1, 1]), None);
        }
        assert_eq!(picker.picked.len(), 2 * SAMPLES_OF_A_KIND);
        assert_eq!(picker.picked[0].client, 0);
        assert_eq!(picker.picked[SAMPLES_OF_A_KIND].client, 199);
    }

    #[test]
    fn large_images_are_kept_small() {
        assert_eq!(kept_shape([3, 224, 200]), [3, 56, 50]);
        assert_eq!(kept_shape([1, 28, 28]), [1, 28, 28]);
        assert_eq!(smaller(&[1.0, 2.0, 3.0, 4.0], [1, 2, 2]), [1.0, 2.0, 3.0, 4.0]);
        // 2 x 65: pairs of columns become one, the last column stands alone.
        let row = |of: f32| (0..65).map(move |column| of + (column / 2) as f32);
        let image: Vec<f32> = row(0.0).chain(row(1.0)).collect();
        assert_eq!(kept_shape([1, 2, 65]), [1, 1, 33]);
        assert_eq!(
            smaller(&image, [1, 2, 65]),
            (0..33).map(|column| column as f32 + 0.5).collect::<Vec<_>>()
        );
    }

    #[test]
    fn pixels_cover_the_greys() {
        assert_eq!(pixels(&[-1.0, 0.0, 1.0]), [0, 128, 255]);
        assert_eq!(pixels(&[-10.0, 0.0, 10.0]), [0, 128, 255]);
        assert_eq!(pixels(&[7.0, 7.0]), [0, 0]);
    }
}

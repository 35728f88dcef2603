//! Axes of figures: how values are written, which range is shown, where labels stand.

use fedsi_metrics::quantile;

/// How the values of an axis are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Shares from 0 to 1, written as percentages.
    Percent,
    /// Plain numbers.
    Number,
}

impl Unit {
    /// A value with the digits that a table has.
    pub(super) fn exact(self, value: f64) -> String {
        match self {
            Self::Percent => format!("{:.2}%", 100.0 * value),
            Self::Number => format!("{value:.4}"),
        }
    }

    /// A value in short, for a place with little room.
    pub(super) fn short(self, value: f64) -> String {
        match self {
            Self::Percent => format!("{:.1}%", 100.0 * value),
            Self::Number => super::super::canvas::number(&value),
        }
    }

    /// A label of an axis whose labels are this far apart.
    fn tick(self, value: f64, step: f64) -> String {
        let (value, step, sign) = match self {
            Self::Percent => (100.0 * value, 100.0 * step, "%"),
            Self::Number => (value, step, ""),
        };
        let digits = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
        // Never -0.
        let value = if value.abs() < 0.5 * step { 0.0 } else { value };
        format!("{value:.digits$}{sign}")
    }
}

/// How many median absolute deviations from the median a value may lie and still be shown at its place: half of the
/// values may be off, and the others are still told apart.
const FENCE: f64 = 8.0;

/// The least distance from the median that is shown, as a share of it.
const LEAST: f64 = 0.02;

/// What lies on an axis: a value, and its interval where there is one.
pub(super) type Spread = (f64, Option<[f64; 2]>);

/// An axis between two places of a figure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    unit: Unit,
}

/// Where a value came to lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Place {
    Inside(f64),
    /// Below the lowest value that is shown.
    Below,
    /// Above the highest.
    Above,
}

impl Axis {
    /// An axis that shows `values` (with their intervals) but for outliers, and always those of `kept`. `from` and `to`
    /// are where its ends lie.
    pub(super) fn around(values: &[Spread], kept: &[Spread], unit: Unit, (from, to): (f64, f64)) -> Self {
        let is_finite = |spread: &&Spread| spread.0.is_finite();
        let centres: Vec<f64> = values.iter().filter(is_finite).map(|spread| spread.0).collect();
        let median = quantile(&centres, 0.5).unwrap_or(0.0);
        let distances: Vec<f64> = centres.iter().map(|value| (value - median).abs()).collect();
        let reach = (FENCE * quantile(&distances, 0.5).unwrap_or(0.0)).max(LEAST * median.abs());
        let fence = (median - reach, median + reach);
        let is_usual = |value: f64| (fence.0..=fence.1).contains(&value);
        let mut ends: Vec<f64> = Vec::new();
        for (value, interval) in values.iter().filter(is_finite).filter(|spread| is_usual(spread.0)) {
            ends.push(*value);
            ends.extend(
                interval.iter().flatten().filter(|end| !end.is_nan()).map(|end| end.clamp(fence.0, fence.1)),
            );
        }
        for (value, interval) in kept.iter().filter(is_finite) {
            ends.push(*value);
            ends.extend(interval.iter().flatten().filter(|end| end.is_finite()));
        }
        let (low, high) = ends
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &end| (low.min(end), high.max(end)));
        let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        let air = (0.08 * (high - low)).max(0.005 * high.abs().max(low.abs())).max(1e-9);
        // No score below 0 is shown where none is, and no share above 1.
        let bottom = if low >= 0.0 { 0.0 } else { f64::NEG_INFINITY };
        let top = if unit == Unit::Percent && high <= 1.0 { 1.0 } else { f64::INFINITY };
        let (low, high) = ((low - air).max(bottom), (high + air).min(top));
        Self { low, high: high.max(low + 1e-9), from, to, unit }
    }

    /// The same axis between other places.
    pub(super) fn between(self, from: f64, to: f64) -> Self {
        Self { from, to, ..self }
    }

    /// Where a value lies; the nearer end where it is not shown.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        self.from + share * (self.to - self.from)
    }

    /// The same, and whether it is shown.
    pub(super) fn place(&self, value: f64) -> Place {
        if value < self.low {
            Place::Below
        } else if value > self.high {
            Place::Above
        } else {
            Place::Inside(self.at(value))
        }
    }

    /// At most so many round values with their labels.
    pub(super) fn ticks(&self, most: usize) -> Vec<(f64, String)> {
        let width = self.high - self.low;
        let decade = 10.0_f64.powf((width / most.max(1) as f64).log10().floor());
        let count = |step: f64| ((self.high / step).floor() - (self.low / step).ceil()).max(0.0) + 1.0;
        let steps = [1.0, 2.0, 5.0, 10.0, 20.0].map(|factor| factor * decade);
        let step = steps.into_iter().find(|&step| count(step) <= most as f64).unwrap_or(width);
        let first = (self.low / step - 1e-9).ceil();
        (0..most)
            .map(|place| (first + place as f64) * step)
            .take_while(|value| *value <= self.high + 1e-9 * step)
            .map(|value| (value, self.unit.tick(value, step)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(values: &[f64]) -> Vec<Spread> {
        values.iter().map(|&value| (value, None)).collect()
    }

    #[test]
    fn one_bad_method_does_not_squeeze_the_rest() {
        let values = plain(&[0.91, 0.92, 0.93, 0.94, 0.95, 0.12]);
        let axis = Axis::around(&values, &[], Unit::Percent, (0.0, 100.0));
        assert_eq!(axis.place(0.12), Place::Below);
        assert!(matches!(axis.place(0.91), Place::Inside(at) if at < 20.0), "{axis:?}");
        assert!(matches!(axis.place(0.95), Place::Inside(at) if at > 80.0), "{axis:?}");
        assert_eq!(axis.at(0.12), 0.0);
        // The highlighted method is always shown.
        let axis = Axis::around(&values, &plain(&[0.12]), Unit::Percent, (0.0, 100.0));
        assert!(matches!(axis.place(0.12), Place::Inside(_)));
    }

    /// Quartiles would take a quarter of bad ones for usual.
    #[test]
    fn nor_does_one_of_four() {
        let axis = Axis::around(&plain(&[0.3, 0.906, 0.912, 0.918]), &[], Unit::Percent, (0.0, 100.0));
        assert_eq!(axis.place(0.3), Place::Below);
        assert!(matches!(axis.place(0.906), Place::Inside(at) if at < 40.0), "{axis:?}");
    }

    #[test]
    fn shares_end_at_one_and_scores_at_zero() {
        let axis = Axis::around(&plain(&[0.2, 1.0]), &[], Unit::Percent, (0.0, 100.0));
        assert_eq!((axis.high, axis.at(1.0)), (1.0, 100.0));
        let axis = Axis::around(&plain(&[0.001, 0.1]), &[], Unit::Number, (0.0, 100.0));
        assert_eq!(axis.low, 0.0);
    }

    #[test]
    fn labels_are_round_and_few() {
        let labels = |low: f64, high: f64, unit: Unit, most: usize| -> Vec<String> {
            let axis = Axis { low, high, from: 0.0, to: 1.0, unit };
            axis.ticks(most).into_iter().map(|(_, label)| label).collect()
        };
        assert_eq!(labels(0.883, 0.957, Unit::Percent, 4), ["90%", "92%", "94%"]);
        assert_eq!(labels(0.9431, 0.9502, Unit::Percent, 4), ["94.4%", "94.6%", "94.8%", "95.0%"]);
        assert_eq!(labels(0.0, 0.034, Unit::Number, 4), ["0.00", "0.01", "0.02", "0.03"]);
        assert_eq!(labels(-1.2, 3.9, Unit::Number, 4), ["0", "2"]);
        for most in 2..6 {
            for high in [1e-7, 0.3, 0.77, 12.0, 9e5] {
                let found = labels(0.0, high, Unit::Number, most);
                assert!((1..=most).contains(&found.len()), "{high}: {found:?}");
            }
        }
    }

    #[test]
    fn any_numbers_give_an_axis() {
        let odd = [f64::NAN, f64::INFINITY, 1e300, -1e300];
        for values in [&odd[..], &[], &[0.5], &[0.5; 4], &[0.0; 3]] {
            let axis = Axis::around(&plain(values), &plain(values), Unit::Number, (10.0, 20.0));
            assert!(axis.low < axis.high, "{values:?}: {axis:?}");
            assert!((10.0..=20.0).contains(&axis.at(0.5)), "{values:?}: {axis:?}");
            assert!(axis.ticks(4).len() <= 4);
        }
    }
}

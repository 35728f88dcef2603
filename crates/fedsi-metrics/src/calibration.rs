//! Reliability: does a confidence of 0.8 come true eight times in ten?

use crate::{MetricsError, Predictions};

/// A checked number of equal bins over the confidences 0 to 1.
///
/// Bin `i` of `B` holds confidences in `(i/B, (i+1)/B]`; a confidence of exactly 0 falls into the first bin.
/// The edges are the f64 quotients, each correctly rounded, so a confidence written as `0.3` lies on the edge
/// `3/10` and belongs to the bin below it. (Multiples of a rounded `1/B` would put that edge elsewhere.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bins(usize);

impl Bins {
    /// The most bins a table may have.
    pub const LARGEST: usize = 10_000;

    /// `count` bins, 1 to [`Bins::LARGEST`].
    ///
    /// # Errors
    /// [`MetricsError::Bins`] for any other number.
    pub fn new(count: usize) -> Result<Self, MetricsError> {
        if (1..=Self::LARGEST).contains(&count) {
            Ok(Self(count))
        } else {
            Err(MetricsError::Bins { largest: Self::LARGEST, found: count })
        }
    }

    /// The number of bins.
    pub fn count(self) -> usize {
        self.0
    }

    /// The edge `i/B`.
    fn edge(self, i: usize) -> f64 {
        i as f64 / self.0 as f64
    }

    /// The bin that holds `confidence`; values above 1 (a row may sum to a little more) go to the last.
    pub fn index(self, confidence: f64) -> usize {
        // The product can be off by one rounding: it is a guess, and the edges decide.
        let mut bin = ((confidence * self.0 as f64) as usize).min(self.0 - 1);
        while bin > 0 && confidence <= self.edge(bin) {
            bin -= 1;
        }
        while bin + 1 < self.0 && confidence > self.edge(bin + 1) {
            bin += 1;
        }
        bin
    }
}

/// Ten bins, as the protocol has it.
impl Default for Bins {
    fn default() -> Self {
        Self(10)
    }
}

/// One row of a reliability table: the samples whose confidence lies in `(lo, hi]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReliabilityBin {
    /// The lower edge, not included (but for 0 itself).
    pub lo: f64,
    /// The upper edge, included.
    pub hi: f64,
    /// How many samples.
    pub count: usize,
    /// Their mean confidence; 0 in an empty bin.
    pub confidence: f64,
    /// Their accuracy; 0 in an empty bin.
    pub accuracy: f64,
}

impl ReliabilityBin {
    /// `|accuracy - confidence|`: how far this bin is from calibrated; 0 in an empty bin.
    pub fn gap(&self) -> f64 {
        (self.accuracy - self.confidence).abs()
    }

    /// Whether no sample fell here.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Confidences and outcomes collected into equal bins.
///
/// Samples are recorded one at a time, so predictions of many clients pool without being concatenated.
#[derive(Debug, Clone, PartialEq)]
pub struct ReliabilityTable {
    bins: Bins,
    samples: usize,
    counts: Vec<BinSums>,
}

/// What a table holds of one bin: tables of several clients pool by adding these up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct BinSums {
    /// How many samples.
    pub count: usize,
    /// How many of them were right.
    pub correct: usize,
    /// The sum of their confidences.
    pub confidence: f64,
    /// `sum (1 - c)`: not the count less the confidences, which cancels where all are sure.
    pub doubt: f64,
    /// Of the number of right answers, were every confidence right: `sum c (1 - c)`.
    pub variance: f64,
}

impl BinSums {
    /// Whether samples can have these sums: none is negative, infinite or NaN, or larger than the count allows.
    fn is_sound(&self) -> bool {
        let most = self.count as f64 * (1.0 + crate::ROW_SUM_TOLERANCE);
        let sums = [self.confidence, self.doubt, self.variance];
        self.correct <= self.count && sums.iter().all(|sum| (0.0..=most).contains(sum))
    }
}

impl ReliabilityTable {
    /// An empty table.
    pub fn new(bins: Bins) -> Self {
        Self { bins, samples: 0, counts: vec![BinSums::default(); bins.count()] }
    }

    /// The table with these sums, from the lowest confidence to the highest: one that was taken apart by
    /// [`ReliabilityTable::sums`].
    ///
    /// # Errors
    /// No bins, more than a table may have, or sums that no samples have.
    pub fn from_sums(counts: Vec<BinSums>) -> Result<Self, MetricsError> {
        let bins = Bins::new(counts.len())?;
        if let Some(bin) = counts.iter().position(|sums| !sums.is_sound()) {
            return Err(MetricsError::BinSums { bin });
        }
        let samples = counts.iter().fold(0_usize, |samples, sums| samples.saturating_add(sums.count));
        Ok(Self { bins, samples, counts })
    }

    /// What it holds of each bin, from the lowest confidence to the highest.
    pub fn sums(&self) -> &[BinSums] {
        &self.counts
    }

    /// Adds the samples of another table.
    ///
    /// # Errors
    /// A table of another number of bins; nothing is added.
    pub fn append(&mut self, other: &Self) -> Result<(), MetricsError> {
        if other.bins != self.bins {
            let (left, right) = ("the bins of one table", "those of another");
            let (left_len, right_len) = (self.bins.count(), other.bins.count());
            return Err(MetricsError::Unpaired { left, right, left_len, right_len });
        }
        for (own, sums) in self.counts.iter_mut().zip(&other.counts) {
            own.count = own.count.saturating_add(sums.count);
            own.correct = own.correct.saturating_add(sums.correct);
            own.confidence += sums.confidence;
            own.doubt += sums.doubt;
            own.variance += sums.variance;
        }
        self.samples = self.samples.saturating_add(other.samples);
        Ok(())
    }

    /// Adds one sample.
    pub fn record(&mut self, confidence: f64, correct: bool) {
        let bin = &mut self.counts[self.bins.index(confidence)];
        bin.count += 1;
        bin.correct += usize::from(correct);
        bin.confidence += confidence;
        // A row may sum to a little more than 1, and a probability is at most 1.
        let probability = confidence.clamp(0.0, 1.0);
        bin.doubt += 1.0 - probability;
        bin.variance += probability * (1.0 - probability);
        self.samples += 1;
    }

    /// Of each bin, were every confidence right: how many right or wrong answers are expected, whichever is less, and
    /// their variance.
    pub(crate) fn spreads(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.counts.iter().map(|bin| (bin.confidence.min(bin.doubt), bin.variance))
    }

    /// How many samples were recorded.
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// The bins from the lowest confidence to the highest, empty ones included.
    pub fn bins(&self) -> impl ExactSizeIterator<Item = ReliabilityBin> + '_ {
        self.counts.iter().enumerate().map(|(i, bin)| {
            let (lo, hi) = (self.bins.edge(i), self.bins.edge(i + 1));
            let count = bin.count.max(1) as f64;
            let (confidence, accuracy) = (bin.confidence / count, bin.correct as f64 / count);
            ReliabilityBin { lo, hi, count: bin.count, confidence, accuracy }
        })
    }

    /// Expected calibration error: `sum_b (n_b / n) |accuracy_b - confidence_b|`; `None` without samples.
    pub fn ece(&self) -> Option<f64> {
        let weighted: f64 = self.bins().map(|bin| bin.count as f64 * bin.gap()).sum();
        (self.samples > 0).then(|| weighted / self.samples as f64)
    }

    /// Maximum calibration error: the largest gap over bins that hold a sample; `None` without samples.
    ///
    /// A bin of one sample decides it, so read it beside [`ReliabilityTable::mce_1pct`].
    pub fn mce(&self) -> Option<f64> {
        self.largest_gap(1)
    }

    /// The largest gap over bins with at least 1% of the samples; `None` without samples.
    ///
    /// With more than 100 bins it can happen that none is so full; then it is the plain maximum.
    pub fn mce_1pct(&self) -> Option<f64> {
        self.largest_gap(self.samples.div_ceil(100)).or_else(|| self.mce())
    }

    fn largest_gap(&self, at_least: usize) -> Option<f64> {
        self.bins()
            .filter(|bin| !bin.is_empty() && bin.count >= at_least)
            .map(|bin| bin.gap())
            .reduce(f64::max)
    }
}

impl<T: Copy + Into<f64>> Predictions<'_, T> {
    /// The table behind a reliability diagram, empty bins included. One pass.
    pub fn reliability(&self, bins: Bins) -> ReliabilityTable {
        let mut table = ReliabilityTable::new(bins);
        for row in self.rows() {
            table.record(row.confidence(), row.is_correct());
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables that were taken apart, sent and added up are the table of all samples.
    #[test]
    fn tables_pool_by_their_sums() {
        let samples: Vec<(f64, bool)> = (0..40).map(|i| (f64::from(i) / 39.0, i % 3 != 0)).collect();
        let table = |part: &[(f64, bool)]| {
            let mut table = ReliabilityTable::new(Bins::default());
            part.iter().for_each(|&(confidence, correct)| table.record(confidence, correct));
            table
        };
        let mut pooled = ReliabilityTable::new(Bins::default());
        for part in samples.chunks(7) {
            let sent = ReliabilityTable::from_sums(table(part).sums().to_vec()).unwrap();
            assert_eq!(sent, table(part));
            pooled.append(&sent).unwrap();
        }
        let whole = table(&samples);
        assert_eq!(pooled.samples(), whole.samples());
        assert!((pooled.ece().unwrap() - whole.ece().unwrap()).abs() < 1e-15);
        let floors = (pooled.ece_floor().unwrap().mean, whole.ece_floor().unwrap().mean);
        assert!((floors.0 - floors.1).abs() < 1e-14, "{floors:?}");
        assert!(pooled.append(&ReliabilityTable::new(Bins::new(3).unwrap())).is_err());
    }

    #[test]
    fn sums_that_no_samples_have_are_refused() {
        let good = BinSums { count: 2, correct: 1, confidence: 1.5, doubt: 0.5, variance: 0.3 };
        assert!(ReliabilityTable::from_sums(vec![good]).is_ok());
        let bad = [
            BinSums { correct: 3, ..good },
            BinSums { confidence: f64::NAN, ..good },
            BinSums { confidence: 2.5, ..good },
            BinSums { doubt: -0.1, ..good },
            BinSums { variance: f64::INFINITY, ..good },
        ];
        for sums in bad {
            let error = ReliabilityTable::from_sums(vec![good, sums]).unwrap_err();
            assert_eq!(error, MetricsError::BinSums { bin: 1 }, "{sums:?}");
        }
        assert!(ReliabilityTable::from_sums(vec![]).is_err());
    }

    #[test]
    fn an_edge_belongs_to_the_bin_below() {
        for count in [1, 2, 3, 7, 10, 15, 20, 100, 333] {
            let bins = Bins::new(count).unwrap();
            assert_eq!(bins.index(0.0), 0);
            for i in 1..=count {
                let edge = i as f64 / count as f64;
                assert_eq!(bins.index(edge), i - 1, "{i}/{count}");
                assert_eq!(bins.index(edge.next_down()), i - 1, "below {i}/{count}");
                assert_eq!(bins.index(edge.next_up()), i.min(count - 1), "above {i}/{count}");
            }
        }
        // As a person writes them.
        let tenths = Bins::default();
        let written = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];
        assert_eq!(written.map(|c| tenths.index(c)), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn confidences_a_little_above_one_are_in_the_last_bin() {
        assert_eq!(Bins::default().index(1.0009), 9);
    }

    #[test]
    fn bins_are_checked() {
        assert_eq!(Bins::new(0).unwrap_err().to_string(), "bins must be 1 to 10000, found 0");
        assert!(Bins::new(usize::MAX).is_err());
        assert_eq!(Bins::new(15).unwrap().count(), 15);
    }

    #[test]
    fn a_table_worked_by_hand() {
        // Four bins. Bin 1, (0.25, 0.5]: 0.3 wrong, 0.5 right  -> confidence 0.4, accuracy 0.5, gap 0.1.
        //            Bin 3, (0.75, 1]:   0.8 wrong, 1.0 right  -> confidence 0.9, accuracy 0.5, gap 0.4.
        // ECE = 2/4 * 0.1 + 2/4 * 0.4 = 0.25; MCE = 0.4.
        let mut table = ReliabilityTable::new(Bins::new(4).unwrap());
        for (confidence, correct) in [(0.3, false), (0.5, true), (0.8, false), (1.0, true)] {
            table.record(confidence, correct);
        }
        let rows: Vec<ReliabilityBin> = table.bins().collect();
        assert_eq!(rows[1], ReliabilityBin { lo: 0.25, hi: 0.5, count: 2, confidence: 0.4, accuracy: 0.5 });
        assert_eq!(rows[3], ReliabilityBin { lo: 0.75, hi: 1.0, count: 2, confidence: 0.9, accuracy: 0.5 });
        assert!(rows[0].is_empty() && rows[2].is_empty());
        assert_eq!(rows[0].gap(), 0.0);
        assert!((table.ece().unwrap() - 0.25).abs() < 1e-15);
        assert!((table.mce().unwrap() - 0.4).abs() < 1e-15);
    }

    #[test]
    fn the_one_percent_rule_leaves_out_a_lone_sample() {
        // 200 samples: 199 at 0.95 all right (gap 0.05), one at 0.55 wrong (gap 0.55). 1% of 200 is 2 samples,
        // so the lone one decides MCE but not mce_1pct.
        let mut table = ReliabilityTable::new(Bins::default());
        table.record(0.55, false);
        for _ in 0..199 {
            table.record(0.95, true);
        }
        assert!((table.mce().unwrap() - 0.55).abs() < 1e-12);
        assert!((table.mce_1pct().unwrap() - 0.05).abs() < 1e-12);

        // Exactly 1% counts: one of 100.
        let mut table = ReliabilityTable::new(Bins::default());
        table.record(0.55, false);
        for _ in 0..99 {
            table.record(0.95, true);
        }
        assert!((table.mce_1pct().unwrap() - 0.55).abs() < 1e-12);
    }

    #[test]
    fn where_no_bin_is_full_enough_the_plain_maximum_stands_in() {
        // 1000 bins, 1000 samples, one a bin: none holds the 10 that make 1%.
        let mut table = ReliabilityTable::new(Bins::new(1000).unwrap());
        for i in 1..=1000 {
            table.record(f64::from(i) / 1000.0, true);
        }
        assert_eq!(table.mce_1pct(), table.mce());
        assert_eq!(ReliabilityTable::new(Bins::default()).mce_1pct(), None);
    }
}

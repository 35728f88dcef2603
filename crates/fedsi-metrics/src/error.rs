//! What can be wrong with the numbers handed in.

/// Why predictions cannot be scored. Rows, classes and outputs count from 0.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MetricsError {
    /// There is nothing to choose from.
    #[error("predictions need at least one {0}, found none")]
    NoColumns(&'static str),

    /// An array does not have the length that the others call for.
    #[error("{array}: expected {expected} values ({rows} rows of {columns}), found {found}")]
    Length {
        /// Which array.
        array: &'static str,
        /// Rows, as the labels or targets count them.
        rows: usize,
        /// Classes or outputs a row.
        columns: usize,
        /// `rows * columns`.
        expected: usize,
        /// The length it has.
        found: usize,
    },

    /// Two arrays that go together in pairs differ in length.
    #[error("{left} and {right} must be equally long, found {left_len} and {right_len}")]
    Unpaired {
        /// The first array.
        left: &'static str,
        /// The second array.
        right: &'static str,
        /// The first's length.
        left_len: usize,
        /// The second's length.
        right_len: usize,
    },

    /// A bin's counts and sums are not those of any samples.
    #[error("bin {bin}: its counts and sums are not those of any samples")]
    BinSums {
        /// The bin.
        bin: usize,
    },

    /// A probability that is negative, infinite or NaN.
    #[error("row {row}, class {class}: a probability must be finite and not negative, found {value}")]
    Probability {
        /// The row.
        row: usize,
        /// The class.
        class: usize,
        /// What stands there.
        value: f64,
    },

    /// A row of probabilities whose sum is too far from 1.
    #[error("row {row}: probabilities must sum to 1 within {tolerance}, found {sum}")]
    RowSum {
        /// The row.
        row: usize,
        /// How far from 1 it may be.
        tolerance: f64,
        /// Its sum.
        sum: f64,
    },

    /// A label that is no class.
    #[error("row {row}: label {label} is out of range, expected 0 to {}", .classes.saturating_sub(1))]
    Label {
        /// The row.
        row: usize,
        /// The label.
        label: u32,
        /// The number of classes.
        classes: usize,
    },

    /// A number of bins that cannot make a reliability table.
    #[error("bins must be 1 to {largest}, found {found}")]
    Bins {
        /// The most a table may have.
        largest: usize,
        /// The number asked for.
        found: usize,
    },

    /// A value that must be finite (for scores that are only ranked: that must not be NaN).
    #[error("{array}, row {row}, column {column}: expected a finite number, found {value}")]
    NotFinite {
        /// Which array.
        array: &'static str,
        /// The row.
        row: usize,
        /// The output (0 in arrays of one column).
        column: usize,
        /// What stands there.
        value: f64,
    },

    /// A predictive variance that no Gaussian has.
    #[error("row {row}, output {output}: a variance must be finite and positive, found {value}")]
    Variance {
        /// The row.
        row: usize,
        /// The output.
        output: usize,
        /// What stands there.
        value: f64,
    },
}

/// Checks that a row-major array holds `rows` rows of `columns`.
pub(crate) fn check_length(
    array: &'static str,
    found: usize,
    rows: usize,
    columns: usize,
) -> Result<(), MetricsError> {
    // A product that overflows is no length a slice can have.
    let expected = rows.saturating_mul(columns);
    if found == expected {
        Ok(())
    } else {
        Err(MetricsError::Length { array, rows, columns, expected, found })
    }
}

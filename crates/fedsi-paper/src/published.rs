//! The paper's own numbers, to stand beside ours. None of them can be compared with ours: see [`NOT_COMPARABLE`].

/// Why.
pub const NOT_COMPARABLE: &str = "The paper's numbers are not comparable with ours: the public code reports the test accuracy \
of the best round, trains otherwise than the paper says, and on the large sets of Fashion-MNIST and CIFAR-10 about three \
quarters of the test images are in some client's training set; its Bayesian rivals are mostly the broadcast model instead of \
the personal one.";

/// Table I: accuracy in percent by method, on the small and large sets of MNIST, Fashion-MNIST and CIFAR-10.
const TABLE_1: [(&str, [f64; 6]); 12] = [
    ("local", [91.38, 95.16, 86.51, 90.98, 40.98, 71.10]),
    ("fedavg", [88.26, 89.54, 81.28, 82.54, 36.51, 58.15]),
    ("fedavg-ft", [93.15, 94.42, 88.05, 89.67, 48.93, 76.11]),
    ("fedbabu", [91.38, 98.26, 87.70, 93.66, 49.05, 82.78]),
    ("fedper", [91.82, 98.49, 86.62, 96.69, 48.16, 80.90]),
    ("fedrep", [90.68, 98.58, 86.13, 96.78, 46.17, 82.51]),
    ("lg-fedavg", [91.64, 97.13, 86.35, 95.66, 42.15, 71.19]),
    ("pfedbayes", [84.61, 92.54, 76.74, 84.31, 48.24, 70.23]),
    ("bpfed", [92.96, 98.43, 86.54, 91.76, 49.79, 68.05]),
    ("fedpop", [87.63, 89.35, 83.75, 82.17, 43.64, 51.29]),
    ("fedsi-fac", [91.96, 97.96, 86.55, 94.41, 49.63, 74.61]),
    ("fedsi", [93.98, 99.28, 88.41, 96.36, 51.21, 76.10]),
];

/// Table II: ECE, MCE and Brier score by method, on the small sets.
const TABLE_2: [(&str, [[f64; 3]; 3]); 5] = [
    ("pfedbayes", [[0.046, 0.257, 0.100], [0.062, 0.287, 0.190], [0.456, 0.444, 0.832]]),
    ("bpfed", [[0.043, 0.291, 0.123], [0.093, 0.299, 0.209], [0.431, 0.502, 0.803]]),
    ("fedpop", [[0.049, 0.716, 0.137], [0.103, 0.280, 0.237], [0.470, 0.514, 0.874]]),
    ("fedsi-fac", [[0.045, 0.249, 0.131], [0.068, 0.283, 0.281], [0.290, 0.358, 0.741]]),
    ("fedsi", [[0.040, 0.242, 0.101], [0.057, 0.232, 0.182], [0.249, 0.321, 0.704]]),
];

/// What the paper reports of a method on a dataset and size by a score's name in `summary.json`; accuracy as a share.
#[must_use]
pub fn published(method: &str, dataset: &str, size: fedsi_data::Size, score: &str) -> Option<f64> {
    let dataset = ["mnist", "fashion-mnist", "cifar-10"].iter().position(|name| *name == dataset)?;
    let is_small = size == fedsi_data::Size::Small;
    let place = match score {
        "accuracy" => {
            let row = TABLE_1.iter().find(|(name, _)| *name == method)?;
            return Some(row.1[2 * dataset + usize::from(!is_small)] / 100.0);
        }
        "ece" => 0,
        "mce" => 1,
        "brier" => 2,
        _ => return None,
    };
    let row = TABLE_2.iter().find(|(name, _)| *name == method && is_small)?;
    Some(row.1[dataset][place])
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedsi_data::Size;

    #[test]
    fn figures_are_found_by_method_and_setting() {
        assert_eq!(published("fedsi", "fashion-mnist", Size::Large, "accuracy"), Some(96.36 / 100.0));
        assert_eq!(published("fedsi", "cifar-10", Size::Small, "ece"), Some(0.249));
        assert_eq!(published("fedpop", "mnist", Size::Small, "mce"), Some(0.716));
        assert_eq!(
            published("fedavg", "mnist", Size::Small, "ece"),
            None,
            "Table II has Bayesian methods alone"
        );
        assert_eq!(published("fedsi", "mnist", Size::Large, "ece"), None);
        assert_eq!(published("fedsi", "digits", Size::Small, "accuracy"), None);
    }
}

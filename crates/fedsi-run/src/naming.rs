//! Names of data in reports and folders.

use fedsi_fl::Checked;

/// The name of the data in reports.
#[must_use]
pub fn dataset_name(config: &Checked) -> String {
    config.dataset().label(&config.data)
}

/// The dataset and its size as part of a file's name, whatever the data is called.
#[must_use]
pub fn data_label(config: &Checked) -> String {
    let plain =
        |letter: char| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '_' };
    let dataset: String = dataset_name(config).chars().map(plain).take(80).collect();
    format!("{dataset}-{}", config.data.size)
}

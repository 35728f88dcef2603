//! What a server knows of its clients' data: its form, and no sample.

use fedsi_data::site::{AgreedData, Agreement};
use fedsi_data::{Federation, Samples, Scaling, Split, TableEncoding, Targets, Task};
use fedsi_fl::Checked;

/// Clients without samples, whose data has this form.
#[derive(Clone, Debug, PartialEq)]
pub struct DataOutline {
    names: Vec<String>,
    input_shape: Vec<usize>,
    task: Task,
    class_names: Option<Vec<String>>,
    has_pixels: bool,
    input_scaling: Option<Scaling>,
    target_scaling: Option<Scaling>,
    encoding: Option<TableEncoding>,
    columns: Option<Vec<String>>,
}

impl DataOutline {
    /// Clients with these names of the dataset that a config names; none where its form is known only once it is opened.
    #[must_use]
    pub fn of_config(config: &Checked, names: &[String]) -> Option<Self> {
        let form = config.dataset().form()?;
        let classes = config.dataset().class_names();
        Some(Self {
            class_names: (!classes.is_empty()).then(|| classes.iter().map(|&name| name.to_owned()).collect()),
            // Built-in datasets whose form is known are images of bytes.
            has_pixels: form.input_shape.len() == 3,
            ..Self::new(names.to_vec(), form.input_shape.to_vec(), form.task)
        })
    }

    /// The sites of an agreement.
    #[must_use]
    pub fn of_agreement(agreement: &Agreement) -> Self {
        let shape = agreement.input_shape().to_vec();
        Self {
            class_names: agreement.class_names().map(<[String]>::to_vec),
            has_pixels: matches!(agreement.data(), AgreedData::Arrays { pixels: true })
                || matches!(agreement.data(), AgreedData::Named { .. }) && shape.len() == 3,
            input_scaling: agreement.input_scaling(),
            target_scaling: agreement.target_scaling().cloned(),
            encoding: agreement.table_encoding().cloned(),
            columns: agreement.table_encoding().map(TableEncoding::feature_names),
            ..Self::new(agreement.sites().to_vec(), shape, agreement.task())
        }
    }

    /// Clients with these names whose inputs have this shape, for this task.
    #[must_use]
    pub const fn new(names: Vec<String>, input_shape: Vec<usize>, task: Task) -> Self {
        Self {
            names,
            input_shape,
            task,
            class_names: None,
            has_pixels: false,
            input_scaling: None,
            target_scaling: None,
            encoding: None,
            columns: None,
        }
    }
}

impl Federation for DataOutline {
    fn clients(&self) -> usize {
        self.names.len()
    }

    fn client_name(&self, client: usize) -> Option<&str> {
        self.names.get(client).map(String::as_str)
    }

    fn input_shape(&self) -> &[usize] {
        &self.input_shape
    }

    fn task(&self) -> Task {
        self.task
    }

    fn class_names(&self) -> Option<&[String]> {
        self.class_names.as_deref()
    }

    fn count(&self, _: usize, _: Split) -> usize {
        0
    }

    fn samples(&self, _: usize, _: Split) -> Samples {
        let targets = match self.task {
            Task::Classification { .. } => Targets::Classes(Vec::new()),
            Task::Regression { .. } => Targets::Values(Vec::new()),
        };
        Samples { count: 0, inputs: Vec::new(), targets }
    }

    fn label_counts(&self, _: usize, _: Split) -> Vec<usize> {
        match self.task {
            Task::Classification { classes } => vec![0; classes],
            Task::Regression { .. } => Vec::new(),
        }
    }

    fn target_scaling(&self) -> Option<&Scaling> {
        self.target_scaling.as_ref()
    }

    fn input_scaling(&self) -> Option<&Scaling> {
        self.input_scaling.as_ref()
    }

    fn table_encoding(&self) -> Option<&TableEncoding> {
        self.encoding.as_ref()
    }

    fn input_columns(&self) -> Option<&[String]> {
        self.columns.as_deref()
    }

    fn has_pixels(&self) -> bool {
        self.has_pixels
    }
}

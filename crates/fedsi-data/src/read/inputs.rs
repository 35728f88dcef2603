//! Inputs for a network that is trained already.

use std::path::Path;

use super::arrays::{Array, Numbers, checked_product, extension};
use super::new_rows::{self, Features, InputTable};
use super::{idx, npy, picture, tensors};
use crate::error::{DataError, shown};
use crate::file::read_file;
use crate::scale::Scaling;
use crate::scale::{self, Range, byte_to_unit, shade_to_unit};
use crate::spec::FilesSpec;
use crate::table::TableEncoding;

/// The column of a table that holds the classes of a dataset with a name of its own.
const LABEL_COLUMN: &str = "label";

/// What a trained network takes: how a file becomes its inputs.
#[derive(Clone, Copy, Debug)]
pub struct InputForm<'a> {
    /// Where it was trained on the user's own files: what the input array is called, and which columns of a table are no
    /// features. `None` for a dataset with a name of its own, whose tables have their target in the column `label`.
    pub files: Option<&'a FilesSpec>,
    /// The shape of one input.
    pub shape: &'a [usize],
    /// The names of the features, where it was trained on a table:
    /// [`Federation::input_columns`](crate::Federation::input_columns).
    pub columns: Option<&'a [String]>,
    /// How the columns of a table become its inputs: [`Federation::table_encoding`](crate::Federation::table_encoding). It
    /// goes before `columns` and `scaling`.
    pub encoding: Option<&'a TableEncoding>,
    /// Whether it was trained on images of bytes: [`Federation::has_pixels`](crate::Federation::has_pixels).
    pub pixels: bool,
    /// How its inputs were standardised: [`Federation::input_scaling`](crate::Federation::input_scaling).
    pub scaling: Option<&'a Scaling>,
}

/// Inputs without targets, ready for a network.
#[derive(Clone, Debug, PartialEq)]
pub struct InputRows {
    /// How many rows there are.
    pub count: usize,
    /// Rows x features, row-major, scaled as the training data was.
    pub inputs: Vec<f32>,
    /// What each row is called, where it comes from a file of its own.
    pub names: Option<Vec<String>>,
    /// The cells of the table that they come from, where they do and the model was trained on the user's own files.
    pub table: Option<InputTable>,
}

/// Reads inputs to predict for: a .csv table with a header, a .parquet table, a .npy array, a .safetensors file, IDX images, a .png
/// image, or a folder of such images (in the order of their names).
///
/// Inputs are given as the training data was, and scaled as it was. A table's features are found by their names, in any
/// order and beside other columns, where the model was trained on a table; else there are as many columns as inputs. A
/// category that training rows did not have becomes "other"; a cell that cannot be read counts as missing, and is counted,
/// unless `data.files.strict` is set. Arrays have a row a sample, or are one
/// sample. Where the model was trained on images, bytes, integers and tables hold shades from 0 to 255, and floats are
/// scaled to [-1, 1] already. Costs the file's memory and the inputs'.
///
/// # Errors
/// Where the file cannot be read, or its rows have another size or other columns than the model was trained on.
pub fn read_inputs(path: &Path, form: &InputForm<'_>) -> Result<InputRows, DataError> {
    if path.is_dir() {
        return picture::read_folder(path, form);
    }
    let (count, inputs) = match extension(path).as_str() {
        "csv" | "parquet" => {
            let rows = new_rows::read(path, form, None)?;
            let table = form.keeps_cells().then_some(rows.table);
            return Ok(InputRows { count: rows.count, inputs: rows.inputs, names: None, table });
        }
        "npy" => form.array_inputs(npy::read(path)?)?,
        "safetensors" => form.array_inputs(form.find_inputs(path, &read_file(path)?)?)?,
        "png" => return picture::read_one(path, form),
        _ if path.file_name().is_some_and(|name| name.to_string_lossy().contains("idx")) => {
            let idx::Idx { dimensions, bytes } = idx::read(path, 3)?;
            let place = "the images".to_owned();
            let numbers = Numbers::Bytes(bytes);
            form.array_inputs(Array { path: path.to_path_buf(), place, shape: dimensions, numbers })?
        }
        _ => {
            return Err(unknown_ending(
                path,
                "a .csv, .parquet, .npy, .safetensors or .png file, or a folder of .png files",
            ));
        }
    };
    Ok(InputRows { count, inputs, names: None, table: None })
}

/// The numbers of an array in memory, row-major.
#[derive(Clone, Debug, PartialEq)]
pub enum ArrayNumbers {
    /// Bytes.
    Bytes(Vec<u8>),
    /// Whole numbers.
    Integers(Vec<i64>),
    /// Any numbers.
    Floats(Vec<f64>),
}

/// The same for an array in memory: what [`read_inputs`] makes of a .npy file with these numbers. Costs the inputs' memory.
///
/// # Errors
/// Rows of another size than the model was trained on; numbers that it cannot take.
pub fn array_inputs(
    shape: &[usize],
    numbers: ArrayNumbers,
    form: &InputForm<'_>,
) -> Result<InputRows, DataError> {
    let (numbers, found) = match numbers {
        ArrayNumbers::Bytes(bytes) => (bytes.len(), Numbers::Bytes(bytes)),
        ArrayNumbers::Integers(integers) => (integers.len(), Numbers::Integers(integers)),
        ArrayNumbers::Floats(floats) => (floats.len(), Numbers::Floats(floats)),
    };
    let path = Path::new("x");
    if checked_product(shape) != Some(numbers) {
        let found = format!("{numbers} numbers");
        let advice = "give as many numbers as the shape has";
        return Err(DataError::malformed(path, "the array", found, format!("shape {shape:?}"), advice));
    }
    let array =
        Array { path: path.to_owned(), place: "the array".to_owned(), shape: shape.to_vec(), numbers: found };
    let (count, inputs) = form.array_inputs(array)?;
    Ok(InputRows { count, inputs, names: None, table: None })
}

/// A file whose format is unknown; where there is none, the system says so.
pub(crate) fn unknown_ending(path: &Path, expected: &str) -> DataError {
    if let Err(source) = std::fs::metadata(path) {
        return DataError::io("read", path, source);
    }
    let name = path.file_name().map_or(path, Path::new);
    DataError::malformed(path, "the ending", shown(name), expected, "save it in one of these formats")
}

impl InputForm<'_> {
    /// Whether the cells of a table are of interest besides its inputs: not where they are pixels.
    pub(crate) const fn keeps_cells(&self) -> bool {
        self.files.is_some() && !self.pixels
    }

    /// Numbers in one input.
    pub(crate) fn features(&self) -> usize {
        checked_product(self.shape).unwrap_or(0)
    }

    /// Which numbers a file may hold.
    pub(crate) const fn range(&self) -> Range {
        Range::of_files(self.scaling.is_some())
    }

    /// The columns of a table that hold targets.
    pub(crate) fn target_columns(&self) -> Vec<&str> {
        self.files
            .map_or_else(|| vec![LABEL_COLUMN], |files| files.target.split(',').map(str::trim).collect())
    }

    /// The column of a single target, whose name may have a comma in it.
    pub(crate) fn target_column(&self) -> &str {
        self.files.map_or(LABEL_COLUMN, |files| files.target.as_str())
    }

    /// The columns of a table that may be there and are no features.
    pub(crate) fn aside(&self) -> Vec<&str> {
        let mut aside = self.target_columns();
        if let Some(files) = self.files {
            aside.extend([files.target.as_str(), files.client.as_str(), files.id.as_str()]);
            aside.extend(files.ignore.iter().map(String::as_str));
        }
        aside
    }

    /// The array of inputs in a safetensors file: under the name of the training file, or `inputs`.
    pub(crate) fn find_inputs(&self, path: &Path, bytes: &[u8]) -> Result<Array, DataError> {
        tensors::find_any(
            path,
            bytes,
            &[self.files.map_or("inputs", |files| files.inputs.as_str()), "inputs"],
        )
    }

    /// A table's features, scaled.
    pub(super) fn table_inputs(&self, path: &Path, rows: &Features) -> Result<Vec<f32>, DataError> {
        let (width, features) = (rows.columns.len(), self.features());
        if width != features {
            let found = format!("{width} columns");
            let expected = format!("{features}, an input of shape {:?}", self.shape);
            let advice = "give the inputs in the form that the model was trained on";
            return Err(DataError::malformed(path, "the inputs", found, expected, advice));
        }
        if !self.pixels {
            return Ok(scale::to_singles(self.scaling, &rows.values));
        }
        let place =
            |at: usize| format!("line {}, column {:?}", rows.lines[at / width], rows.columns[at % width]);
        shades(path, &rows.values, place)
    }

    /// An array as rows: how many, and their numbers, scaled.
    pub(crate) fn array_inputs(&self, mut array: Array) -> Result<(usize, Vec<f32>), DataError> {
        let (rows, width) = (self.rows_of(&array)?, self.features());
        array.shape = vec![rows, width];
        if !self.pixels {
            return Ok((rows, scale::to_singles(self.scaling, &array.floats(self.range())?)));
        }
        let (path, name) = (array.path.clone(), array.place.clone());
        let place = |at: usize| format!("{name}, row {}, number {}", at / width, at % width);
        let inputs = match array.numbers {
            Numbers::Bytes(bytes) => bytes.into_iter().map(byte_to_unit).collect(),
            Numbers::Integers(values) => {
                let values: Vec<f64> = values.into_iter().map(|value| value as f64).collect();
                shades(&path, &values, place)?
            }
            Numbers::Floats(_) => {
                let values = array.floats(Range::Single)?;
                within(
                    &path,
                    &values,
                    place,
                    -1.0..=1.0,
                    "floats scaled to [-1, 1], or bytes from 0 to 255",
                )?;
                values.into_iter().map(|value| value as f32).collect()
            }
        };
        Ok((rows, inputs))
    }

    /// How many inputs an array holds: a row each, or all of it one input.
    fn rows_of(&self, array: &Array) -> Result<usize, DataError> {
        let shape = &array.shape;
        // Sides of 1 say nothing; a flat row is an image all the same. Sides in another order are another image.
        let same = |sides: &[usize]| {
            let long = |sides: &[usize]| sides.iter().copied().filter(|&side| side != 1).collect::<Vec<_>>();
            checked_product(sides) == Some(self.features())
                && (sides.len() <= 1 || self.shape.len() == 1 || long(sides) == long(self.shape))
        };
        if shape.first().is_some_and(|&rows| rows > 0) && same(&shape[1..]) {
            return Ok(array.rows());
        }
        if !shape.is_empty() && same(shape) {
            return Ok(1);
        }
        let found = format!("an array of shape {shape:?}");
        let expected = format!("at least one row of shape {:?}, or [{}]", self.shape, self.features());
        let advice = "give the inputs in the form that the model was trained on";
        Err(DataError::malformed(&array.path, array.place.clone(), found, expected, advice))
    }
}

/// Shades of an image, scaled.
fn shades(path: &Path, values: &[f64], place: impl Fn(usize) -> String) -> Result<Vec<f32>, DataError> {
    within(path, values, place, 0.0..=255.0, "shades from 0 to 255")?;
    Ok(values.iter().map(|&value| shade_to_unit(value)).collect())
}

fn within(
    path: &Path,
    values: &[f64],
    place: impl Fn(usize) -> String,
    range: std::ops::RangeInclusive<f64>,
    expected: &str,
) -> Result<(), DataError> {
    match values.iter().position(|value| !range.contains(value)) {
        None => Ok(()),
        Some(at) => {
            let advice = "give images as the training data had them";
            Err(DataError::malformed(path, place(at), values[at].to_string(), expected, advice))
        }
    }
}

//! NPY, `NumPy`'s format of one array.

use std::path::Path;

use npyz::{Deserialize, NpyFile, Order};

use super::arrays::{Array, Numbers, checked_product};
use crate::error::{DataError, one_line};
use crate::file::read_file;

const SAVE: &str = "save it with numpy.save(path, numpy.ascontiguousarray(array))";
/// `NumPy` itself reads no longer headers by default.
const LONGEST_HEADER: usize = 10_000;

/// Reads an array of bytes, integers or floats in C order.
pub(crate) fn read(path: &Path) -> Result<Array, DataError> {
    parse(path, &read_file(path)?)
}

/// The shape and the numbers of an NPY file's bytes, as `f64`; `path` is for messages. Costs a copy of the numbers.
///
/// # Errors
/// Bytes that are no NPY file, an order or type that is not read.
pub fn npy_numbers(path: &Path, bytes: &[u8]) -> Result<(Vec<usize>, Vec<f64>), DataError> {
    let Array { shape, numbers, .. } = parse(path, bytes)?;
    let values = match numbers {
        Numbers::Bytes(values) => values.into_iter().map(f64::from).collect(),
        Numbers::Integers(values) => values.into_iter().map(|value| value as f64).collect(),
        Numbers::Floats(values) => values,
    };
    Ok((shape, values))
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Array, DataError> {
    let shape = check_header(path, bytes)?;
    let bad = |found: String, expected: &str| DataError::malformed(path, "the header", found, expected, SAVE);
    let file = NpyFile::new(bytes).map_err(|error| bad(one_line(&error.to_string()), "an NPY header"))?;
    if file.order() != Order::C && shape.len() > 1 {
        return Err(bad("an array in Fortran order".to_owned(), "one in C order"));
    }
    let descr = file.dtype().descr();
    let data = file.header().clone();
    let rest = file.into_inner();
    let count = checked_product(&shape).unwrap_or(usize::MAX);
    let expected = data.dtype().num_bytes().and_then(|size| size.checked_mul(count));
    if expected != Some(rest.len()) {
        let place = format!("the data of shape {shape:?} and type {descr}");
        let expected = expected.map_or("fewer".to_owned(), |size| size.to_string());
        return Err(DataError::malformed(path, place, format!("{} bytes", rest.len()), expected, SAVE));
    }
    let file = NpyFile::with_header(data, rest);
    let numbers = match descr.trim_matches('\'').trim_start_matches(['<', '>', '|', '=']) {
        "u1" => decode::<u8>(file).map(Numbers::Bytes),
        "b1" => decode::<bool>(file).map(|v| Numbers::Bytes(v.into_iter().map(u8::from).collect())),
        "i1" => decode::<i8>(file).map(integers),
        "i2" => decode::<i16>(file).map(integers),
        "u2" => decode::<u16>(file).map(integers),
        "i4" => decode::<i32>(file).map(integers),
        "u4" => decode::<u32>(file).map(integers),
        "i8" => decode::<i64>(file).map(Numbers::Integers),
        "f4" => decode::<f32>(file).map(|v| Numbers::Floats(v.into_iter().map(f64::from).collect())),
        "f8" => decode::<f64>(file).map(Numbers::Floats),
        _ => {
            return Err(bad(
                format!("the type {descr}"),
                "uint8, an integer of up to 64 bits, float32 or float64",
            ));
        }
    };
    let numbers = numbers.map_err(|error| bad(one_line(&error), "readable data"))?;
    Ok(Array { path: path.to_path_buf(), place: "the array".to_owned(), shape, numbers })
}

fn integers<T: Into<i64>>(values: Vec<T>) -> Numbers {
    Numbers::Integers(values.into_iter().map(Into::into).collect())
}

fn decode<T: Deserialize>(file: NpyFile<&[u8]>) -> Result<Vec<T>, String> {
    let data = file.data::<T>().map_err(|_| "a type that cannot be read".to_owned())?;
    data.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

/// The shape, after everything in the header that the parser behind it would trust: that the text is as long as
/// promised (it would set memory aside), not nested (it recurses), and that the number of elements can be counted.
fn check_header(path: &Path, bytes: &[u8]) -> Result<Vec<usize>, DataError> {
    let bad = |found: &str, expected: &str| DataError::malformed(path, "the header", found, expected, SAVE);
    if !bytes.starts_with(b"\x93NUMPY") {
        return Err(bad("no magic bytes", "those of an NPY file"));
    }
    let byte = |at: usize| bytes.get(at).copied().map(usize::from);
    let (start, length) = match (byte(6), byte(8), byte(9), byte(10), byte(11)) {
        (Some(1), Some(a), Some(b), _, _) => (10, a | b << 8),
        (Some(2 | 3), Some(a), Some(b), Some(c), Some(d)) => (12, a | b << 8 | c << 16 | d << 24),
        _ => return Err(bad("another version, or the end of the file", "version 1, 2 or 3")),
    };
    if length > LONGEST_HEADER {
        return Err(bad("a promise of a longer header", "at most 10000 bytes"));
    }
    let text = bytes.get(start..start + length).and_then(|text| std::str::from_utf8(text).ok());
    let Some(text) = text else { return Err(bad("broken text", "as many bytes of UTF-8 as promised")) };
    let count = |wanted: &[char]| text.matches(wanted).count();
    if count(&['(']) != 1 || count(&[')']) != 1 || count(&['{']) != 1 || count(&['[']) != 0 {
        return Err(bad("a nested or structured type", "a plain array of numbers"));
    }
    let inside =
        text.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map_or("", |(inside, _)| inside);
    let parts = inside.split(',').map(str::trim).filter(|part| !part.is_empty());
    let shape: Option<Vec<usize>> = parts.map(|part| part.parse().ok()).collect();
    // Without zeros: the parser multiplies in any order, and a zero at the end would not save it.
    let nonzero = |shape: &[usize]| shape.iter().map(|&size| size.max(1)).collect::<Vec<_>>();
    match shape {
        Some(shape) if checked_product(&nonzero(&shape)).is_some() => Ok(shape),
        _ => Err(bad("a shape that cannot be counted", "a tuple of sizes")),
    }
}

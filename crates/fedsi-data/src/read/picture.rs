//! PNG images as inputs.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use png::{ColorType, Decoder, DecodingError, Transformations};

use super::arrays::extension;
use super::inputs::{InputForm, InputRows};
use crate::error::{DataError, one_line};
use crate::file::read_file;
use crate::scale::byte_to_unit;

/// One image.
pub(super) fn read_one(path: &Path, form: &InputForm<'_>) -> Result<InputRows, DataError> {
    let size = Size::of(path, form)?;
    let names = path.file_name().map(|name| vec![name.to_string_lossy().into_owned()]);
    Ok(InputRows { count: 1, inputs: read(path, &size)?, names, table: None })
}

/// The images of a folder in the order of their names; files with other endings are passed over.
pub(super) fn read_folder(folder: &Path, form: &InputForm<'_>) -> Result<InputRows, DataError> {
    let failed = |source| DataError::io("read", folder, source);
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if extension(&path) == "png" {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        let advice = "give a folder of PNG images, or a file";
        return Err(DataError::malformed(folder, "the folder", "no image", "at least one .png file", advice));
    }
    paths.sort();
    let (mut inputs, mut names) = (Vec::new(), Vec::with_capacity(paths.len()));
    for path in &paths {
        inputs.extend(read(path, &Size::of(path, form)?)?);
        names.push(path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default());
    }
    Ok(InputRows { count: paths.len(), inputs, names: Some(names), table: None })
}

/// The image that a network takes.
struct Size {
    channels: usize,
    height: usize,
    width: usize,
}

impl Size {
    fn of(path: &Path, form: &InputForm<'_>) -> Result<Self, DataError> {
        match (form.pixels, form.shape) {
            (true, &[channels @ (1 | 3), height, width]) => Ok(Self { channels, height, width }),
            _ => {
                let expected = format!("numbers of shape {:?}, as in training", form.shape);
                let advice = "give a .csv, .npy or .safetensors file";
                Err(DataError::malformed(path, "the inputs", "an image", expected, advice))
            }
        }
    }
}

/// An image's values, channel after channel, scaled to [-1, 1].
fn read(path: &Path, size: &Size) -> Result<Vec<f32>, DataError> {
    let bytes = read_file(path)?;
    let damaged = |error: DecodingError| {
        let found = one_line(&error.to_string());
        DataError::malformed(path, "the image", found, "a whole PNG image", "save or copy it again")
    };
    let mut decoder = Decoder::new(Cursor::new(bytes));
    // Palettes and small depths become bytes, deep channels lose their lower byte.
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    let mut reader = decoder.read_info().map_err(damaged)?;
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    // Before memory is set aside for it.
    if (height, width) != (size.height, size.width) {
        let found = format!("{width} x {height} pixels");
        let expected = format!("{} x {}, as in training", size.width, size.height);
        return Err(DataError::malformed(path, "the image", found, expected, "crop or scale it"));
    }
    let mut pixels = vec![0; reader.output_buffer_size().unwrap_or(0)];
    let frame = reader.next_frame(&mut pixels).map_err(damaged)?;
    let (samples, grey) = match frame.color_type {
        ColorType::Grayscale => (1, true),
        ColorType::GrayscaleAlpha => (2, true),
        ColorType::Rgb | ColorType::Indexed => (3, false),
        ColorType::Rgba => (4, false),
    };
    let pixels: Vec<&[u8]> = pixels[..frame.buffer_size()].chunks_exact(samples).collect();
    let shade = |pixel: &[u8], channel: usize| match (grey, size.channels) {
        (true, _) => pixel[0],
        (false, 1) => luma(pixel),
        (false, _) => pixel[channel],
    };
    let channels = 0..size.channels;
    Ok(channels
        .flat_map(|channel| pixels.iter().map(move |pixel| byte_to_unit(shade(pixel, channel))))
        .collect())
}

/// The grey of a colour, by the weights of ITU-R BT.601 in thousandths.
fn luma(pixel: &[u8]) -> u8 {
    let weights = [299_u32, 587, 114];
    let sum: u32 = pixel.iter().zip(weights).map(|(&shade, weight)| u32::from(shade) * weight).sum();
    ((sum + 500) / 1000) as u8
}

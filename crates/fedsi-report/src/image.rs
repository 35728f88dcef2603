//! Pixels as PNG files and as addresses that carry them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::ReportError;

/// What a pixel holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channels {
    /// One level of grey.
    Grey,
    /// Red, green, blue.
    Colour,
}

/// Pixels, row after row, as a PNG file.
pub(crate) fn png(size: [u32; 2], channels: Channels, pixels: &[u8]) -> Result<Vec<u8>, ReportError> {
    let failed = |error: png::EncodingError| ReportError::Drawing(error.to_string());
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, size[0], size[1]);
    encoder.set_color(match channels {
        Channels::Grey => png::ColorType::Grayscale,
        Channels::Colour => png::ColorType::Rgb,
    });
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Fast);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(pixels).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(file)
}

/// An image of `[channels, height, width]`, stored channel after channel, as the base64 of a PNG file; none where the
/// pixels are not there.
pub(crate) fn encoded(shape: [usize; 3], planes: &[u8]) -> Result<Option<String>, ReportError> {
    let [channels, height, width] = shape;
    let kind = match channels {
        1 => Channels::Grey,
        3 => Channels::Colour,
        _ => return Ok(None),
    };
    let size = channels.checked_mul(height).and_then(|size| size.checked_mul(width));
    if planes.is_empty() || size != Some(planes.len()) {
        return Ok(None);
    }
    let cells = height * width;
    let pixels: Vec<u8> =
        (0..cells * channels).map(|at| planes[at % channels * cells + at / channels]).collect();
    let (Ok(width), Ok(height)) = (u32::try_from(width), u32::try_from(height)) else { return Ok(None) };
    png([width, height], kind, &pixels).map(|file| Some(STANDARD.encode(file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_become_pixels() {
        // Two pixels: red and blue.
        let text = encoded([3, 1, 2], &[255, 0, 0, 0, 0, 255]).unwrap().unwrap();
        let file = STANDARD.decode(text).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        assert_eq!(pixels, [255, 0, 0, 0, 0, 255]);
    }

    #[test]
    fn no_pixels_are_no_image() {
        assert_eq!(encoded([1, 2, 2], &[]).unwrap(), None);
        assert_eq!(encoded([1, 2, 2], &[0; 3]).unwrap(), None);
        for odd in [[2, 1, 1], [3, usize::MAX, 2], [0, 0, 0], [1, 1 << 40, 1 << 40]] {
            assert_eq!(encoded(odd, &[0; 2]).unwrap(), None, "{odd:?}");
        }
    }
}

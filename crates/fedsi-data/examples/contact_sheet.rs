//! Writes a contact sheet of the built-in digits, one row per class, as a PGM image.
//!
//! `cargo run -p fedsi-data --example contact_sheet -- sheet.pgm [seed]`

use std::error::Error;
use std::io::Write as _;

use fedsi_data::{Split, draw_digit};

const SIDE: usize = 28;
const COLUMNS: usize = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: contact_sheet FILE.pgm [seed]")?;
    let seed = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let mut sheet = vec![0_u8; 10 * SIDE * COLUMNS * SIDE];
    for class in 0..10 {
        for column in 0..COLUMNS {
            let image = draw_digit(seed, 0, Split::Train, class, column as u32);
            for (row, line) in image.chunks_exact(SIDE).enumerate() {
                let at = ((class * SIDE + row) * COLUMNS + column) * SIDE;
                sheet[at..at + SIDE].copy_from_slice(line);
            }
        }
    }
    let mut file = std::fs::File::create(path)?;
    write!(file, "P5\n{} {}\n255\n", COLUMNS * SIDE, 10 * SIDE)?;
    file.write_all(&sheet)?;
    Ok(())
}

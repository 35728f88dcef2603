//! A figure at the top of a page.

/// One large number with what it means.
pub(crate) struct Tile {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) note: String,
}

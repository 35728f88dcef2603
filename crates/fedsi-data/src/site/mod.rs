//! A site with data of its own: a hospital with its folder, its process and its machine.
//!
//! Nobody has the rows of all sites in one place. Each site reads its own and makes a [`SiteDescription`] of them, which holds
//! no row. Whoever has all descriptions, the server, makes an [`Agreement`] of them: the number of each site, the shape of
//! inputs, the task, the classes, the encoding of a table. Each site then opens its own data under that agreement as a
//! [`SiteFederation`], in which it alone has samples. A table that is divided among sites in this way gives each of them the
//! same samples, to the last bit, as one table of all sites with a column of clients gives in one process.
//!
//! ```
//! use fedsi_data::site::{Agreement, SiteDescription, SiteFederation};
//! use fedsi_data::{Federation as _, FilesSpec, PartitionSpec, Split};
//!
//! # let dir = tempfile::tempdir()?;
//! let mut files = Vec::new();
//! for (name, rows) in [("Ghent", "61,yes\n44,no\n70,yes\n"), ("Turku", "58,no\n39,no\n81,yes\n")] {
//!     let train = dir.path().join(format!("{name}.csv"));
//!     std::fs::write(&train, format!("age,died\n{rows}"))?;
//!     files.push((name, FilesSpec { train, target: "died".to_owned(), ..FilesSpec::default() }));
//! }
//! let (partition, seed) = (PartitionSpec::iid(1), 7);
//! // At each site; what it sends is `to_bytes`.
//! let descriptions = files
//!     .iter()
//!     .enumerate()
//!     .map(|(client, (name, files))| SiteDescription::of_files(files, &partition, seed, client, name))
//!     .collect::<Result<Vec<_>, _>>()?;
//! // At the server.
//! let agreement = Agreement::of(&descriptions)?;
//! // At Turku again, which is client 1.
//! let own = SiteFederation::open_files(&files[1].1, &partition, seed, &agreement, 1)?;
//! assert_eq!((own.clients(), own.count(0, Split::Train), own.count(1, Split::Train)), (2, 0, 2));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agree;
mod agreement;
mod arrays;
mod describe;
mod description;
mod federation;
mod form;
mod message;
mod overrides;
mod own_files;

pub use agreement::{AgreedData, Agreement};
pub use description::{SiteData, SiteDescription, TableTarget};
pub use federation::SiteFederation;
pub use overrides::{SITE_KEYS, site_overrides_allowed};

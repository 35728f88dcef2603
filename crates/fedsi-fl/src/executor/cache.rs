//! Clients' data that is kept from round to round.

use std::sync::Arc;

use lru::LruCache;

use crate::client::LocalData;

/// Most bytes of inputs that are kept, unless said otherwise.
pub(crate) const CACHE_BYTES: usize = 192 << 20;

/// The data of the clients seen last. Memory follows participants: with many clients the least recent make room.
#[derive(Debug)]
pub(super) struct DataCache {
    /// By client and the key of the division of its data.
    entries: LruCache<(usize, Option<usize>), Arc<LocalData>>,
    bytes: usize,
    most_bytes: usize,
}

impl Default for DataCache {
    fn default() -> Self {
        Self::new(CACHE_BYTES)
    }
}

impl DataCache {
    /// Keeps up to so many bytes of inputs.
    pub(super) fn new(most_bytes: usize) -> Self {
        Self { entries: LruCache::unbounded(), bytes: 0, most_bytes }
    }

    pub(super) fn get(&mut self, client: usize, division: Option<usize>) -> Option<Arc<LocalData>> {
        self.entries.get(&(client, division)).map(Arc::clone)
    }

    pub(super) fn put(&mut self, client: usize, division: Option<usize>, data: Arc<LocalData>) {
        let size = data.input_bytes();
        if size > self.most_bytes {
            return;
        }
        self.bytes += size;
        if let Some(replaced) = self.entries.put((client, division), data) {
            self.bytes -= replaced.input_bytes();
        }
        while self.bytes > self.most_bytes {
            let Some((_, oldest)) = self.entries.pop_lru() else { return };
            self.bytes -= oldest.input_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use fedsi_data::{Samples, Targets};

    use super::*;

    fn data(values: usize) -> Arc<LocalData> {
        let samples = Samples { count: 1, inputs: vec![0.0; values], targets: Targets::Classes(vec![0]) };
        Arc::new(LocalData::all(samples))
    }

    #[test]
    fn the_least_recent_make_room_and_other_divisions_are_not_served() {
        let third = CACHE_BYTES / 4 / 3;
        let mut cache = DataCache::default();
        for client in 0..3 {
            cache.put(client, None, data(third));
        }
        assert!(cache.get(0, None).is_some() && cache.get(0, Some(0)).is_none());
        cache.put(3, None, data(third));
        assert!(cache.get(1, None).is_none(), "the least recent");
        assert!(cache.get(0, None).is_some() && cache.get(2, None).is_some());
        cache.put(2, Some(1), data(third));
        assert_eq!(cache.entries.len(), 3);
        assert!(cache.get(2, Some(1)).is_some() && cache.get(2, None).is_some(), "both divisions");
        assert!(cache.bytes <= CACHE_BYTES);
        cache.put(9, None, data(CACHE_BYTES / 4 + 1));
        assert!(cache.get(9, None).is_none(), "larger than the cache");
    }
}

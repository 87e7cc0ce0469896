use std::sync::Arc;

use imbl::HashMap;

use crate::targets::{RouteTarget, Targets};

/// Bindings by key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Direct {
    keys: HashMap<Arc<[u8]>, Targets>,
}

impl Direct {
    pub(crate) fn bind(&mut self, key: &Arc<[u8]>, target: RouteTarget) {
        self.keys.entry(key.clone()).or_default().add(target);
    }

    pub(crate) fn unbind(&mut self, key: &[u8], target: &RouteTarget) {
        let Some(targets) = self.keys.get_mut(key) else {
            return;
        };
        targets.remove(target);
        if targets.is_empty() {
            self.keys.remove(key);
        }
    }

    pub(crate) fn matches<'a>(&'a self, key: &[u8], visit: &mut dyn FnMut(&'a RouteTarget)) {
        if let Some(targets) = self.keys.get(key) {
            targets.for_each(visit);
        }
    }
}

use crate::targets::{RouteTarget, Targets};

/// All bindings; keys are ignored.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fanout {
    targets: Targets,
}

impl Fanout {
    pub(crate) fn bind(&mut self, target: RouteTarget) {
        self.targets.add(target);
    }

    pub(crate) fn unbind(&mut self, target: &RouteTarget) {
        self.targets.remove(target);
    }

    /// Number of targets, which every message goes to.
    pub(crate) fn len(&self) -> usize {
        self.targets.len()
    }

    pub(crate) fn matches<'a>(&'a self, visit: &mut dyn FnMut(&'a RouteTarget)) {
        self.targets.for_each(visit);
    }
}

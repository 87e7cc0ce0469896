use crate::targets::{Target, Targets};

/// All bindings; keys are ignored.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fanout {
    targets: Targets,
}

impl Fanout {
    pub(crate) fn bind(&mut self, target: Target) {
        self.targets.add(target);
    }

    pub(crate) fn unbind(&mut self, target: &Target) {
        self.targets.remove(target);
    }

    pub(crate) fn matches<'a>(&'a self, visit: &mut dyn FnMut(&'a Target)) {
        self.targets.for_each(visit);
    }
}

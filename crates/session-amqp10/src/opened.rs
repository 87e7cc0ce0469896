//! The client's `open`, and the limits that follow from it (specification 2.7.1).

use std::sync::Arc;

use leveret_model::Arguments;

/// A client as its `open` describes it, with its frames.
pub(crate) struct Opened {
    container: Arc<str>,
    properties: Arguments,
    frame_max_in: u32,
    frame_max_out: u32,
    ignores_maintenance: bool,
}

impl Opened {
    /// Before `open`, frames of both sides have at most this many bytes.
    pub(crate) fn new(frame_max: u32) -> Self {
        Self {
            container: "".into(),
            properties: Arguments::default(),
            frame_max_in: frame_max,
            frame_max_out: frame_max,
            ignores_maintenance: false,
        }
    }

    /// The client's container-id came. One that maintains the node stays connected while that is in maintenance.
    pub(crate) fn begin(&mut self, container: &str, ignores_maintenance: bool) {
        self.container = container.into();
        self.ignores_maintenance = ignores_maintenance;
    }

    /// The sizes in bytes of the largest frames from here on.
    pub(crate) fn set_frame_max(&mut self, frame_max_in: u32, frame_max_out: u32) {
        (self.frame_max_in, self.frame_max_out) = (frame_max_in, frame_max_out);
    }

    pub(crate) fn set_properties(&mut self, properties: Arguments) {
        self.properties = properties;
    }

    /// The client's container-id.
    pub(crate) fn container(&self) -> &Arc<str> {
        &self.container
    }

    /// The properties that the client sent.
    pub(crate) fn properties(&self) -> &Arguments {
        &self.properties
    }

    /// Largest frame that we take, in bytes.
    #[inline]
    pub(crate) fn frame_max_in(&self) -> u32 {
        self.frame_max_in
    }

    /// Largest frame that the client takes, in bytes.
    #[inline]
    pub(crate) fn frame_max_out(&self) -> u32 {
        self.frame_max_out
    }

    /// The client maintains the node, and stays connected while it is in maintenance.
    pub(crate) fn ignores_maintenance(&self) -> bool {
        self.ignores_maintenance
    }
}

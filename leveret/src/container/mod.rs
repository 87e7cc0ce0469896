//! The node in a container: the entry point of the image, the folder of its data, and what kind of storage that is on.

pub(crate) mod cookie;
pub(crate) mod data_folder;
pub(crate) mod deprecated;
pub(crate) mod entry_point;
pub(crate) mod mounts;
pub(crate) mod ownership;

use std::path::Path;

/// A file that only the image has (`packaging/image/build` makes it). Unlike a variable, it is there for every process
/// of the container, however it was started.
const MARK: &str = "/usr/share/leveret/image";

/// The home of the user `rabbitmq`, at which the image declares a volume.
pub(crate) const HOME: &str = "/var/lib/rabbitmq";

/// Whether this process runs in our image.
pub(crate) fn is_image() -> bool {
    Path::new(MARK).exists()
}

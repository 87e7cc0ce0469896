use crate::composite::composite;
use crate::{DeliveryState, Role};

composite! {
    /// Reports the state of deliveries (2.7.6).
    Disposition['a] = DISPOSITION, "disposition" {
        /// The role of the sending peer on these deliveries' links.
        role "role": mandatory Role,
        /// The first delivery-id.
        first "first": mandatory u32,
        /// The last one; `None` for `first` alone.
        last "last": optional u32,
        /// Whether the sending peer settled them.
        settled "settled": default bool = false,
        /// Their state.
        state "state": optional DeliveryState<'a>,
        /// Whether the receiver may delay its reply to batch it with others.
        batchable "batchable": default bool = false,
    }
}

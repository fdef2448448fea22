use std::sync::atomic::{AtomicBool, AtomicU64};

use viaduct_processes::segment::Access;

use super::*;

#[allow(dead_code, reason = "shared with the conformance suite")]
#[path = "../../tests/conformance/refusal.rs"]
mod refusal;

/// Pages of this process, or a reason why there are none.
fn pages() -> Option<Pages> {
    match Pages::new() {
        Ok(pages) => Some(pages),
        Err(error) => {
            println!("not tried: {error}");
            None
        }
    }
}

/// Memory of whole pages, as a program has it.
struct Memory {
    start: *mut u8,
    length: usize,
}

impl Memory {
    fn new(pages: usize) -> Self {
        let length = pages * PAGE_BYTES;
        let start = reserve(length).unwrap().cast();
        Self { start, length }
    }

    fn address(&self) -> u64 {
        self.start.addr() as u64
    }

    fn word(&self, page: usize) -> &AtomicU64 {
        // SAFETY: aligned, inside, and mapped as long as this is.
        unsafe { AtomicU64::from_ptr(self.start.add(page * PAGE_BYTES).cast()) }
    }

    fn set(&self, page: usize, value: u64) {
        self.word(page).store(value, Ordering::Relaxed);
    }

    fn get(&self, page: usize) -> u64 {
        self.word(page).load(Ordering::Relaxed)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: this mapping.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}

/// The first word of what a peer has mapped.
fn word(window: &viaduct_processes::segment::Window) -> &AtomicU64 {
    // SAFETY: aligned, inside, and mapped as long as the window is.
    unsafe { AtomicU64::from_ptr(window.range(0, 8).unwrap().as_ptr().cast()) }
}

#[test]
fn a_peer_reaches_pages_until_their_region_is_gone() {
    let Some(mut pages) = pages() else { return };
    let memory = Memory::new(4);
    memory.set(1, 11);
    // All of the two pages in the middle, and parts of their neighbours.
    let shared = pages
        .share(1, memory.address() + 8, 3 * PAGE_BYTES as u64)
        .unwrap();
    assert_eq!(shared.address, memory.address() + PAGE_BYTES as u64);
    assert_eq!(shared.length, 2 * PAGE_BYTES as u64);
    let theirs = Store::take(pages.store().fd().try_clone_to_owned().unwrap()).unwrap();
    let open =
        |shared: Shared| theirs.window(shared.offset, shared.length as usize, Access::ReadWrite);
    let window = open(shared).unwrap();
    assert_eq!(word(&window).load(Ordering::Relaxed), 11);
    word(&window).store(12, Ordering::Relaxed);
    assert_eq!(memory.get(1), 12);
    memory.set(1, 13);
    assert_eq!(word(&window).load(Ordering::Relaxed), 13);
    // A region inside of them has them, too, and they stay as long as one does.
    let inner = pages.share(2, shared.address + PAGE_BYTES as u64, PAGE_BYTES as u64);
    assert_eq!(inner.unwrap().offset, shared.offset + PAGE_BYTES as u64);
    pages.leave(1);
    assert!(!pages.shares(1) && pages.shares(2));
    word(&window).store(14, Ordering::Relaxed);
    assert_eq!(memory.get(1), 14);
    pages.leave(2);
    // A peer that keeps what it has mapped writes to nobody's memory.
    word(&window).store(15, Ordering::Relaxed);
    assert_eq!(memory.get(1), 14);
    memory.set(1, 16);
    assert_eq!(word(&window).load(Ordering::Relaxed), 15);
    assert_eq!(pages.free, BTreeMap::from([(0, theirs.length())]));
}

#[test]
fn nobody_loses_a_write_while_pages_move() {
    const PAGES: usize = 24;
    let Some(mut pages) = pages() else { return };
    let memory = Memory::new(PAGES);
    let is_over = AtomicBool::new(false);
    let rounds = std::thread::scope(|scope| {
        let (memory, is_over) = (&memory, &is_over);
        let writers = [0, 1].map(|half| {
            // What is not `Sync` about the memory is its address alone.
            let words: Vec<&AtomicU64> = (0..PAGES / 2)
                .map(|at| memory.word(2 * at + half))
                .collect();
            scope.spawn(move || {
                let mut rounds = 0;
                while !is_over.load(Ordering::Relaxed) {
                    for word in &words {
                        // Not in one step: a write that is lost would be seen by its own thread.
                        word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                    }
                    rounds += 1;
                }
                rounds
            })
        });
        for key in 0..300 {
            let shared = pages.share(key, memory.address(), memory.length as u64);
            assert!(shared.is_some());
            pages.leave(key);
        }
        is_over.store(true, Ordering::Relaxed);
        writers.map(|writer| writer.join().unwrap())
    });
    let lost = (0..PAGES).map(|page| rounds[page % 2] - memory.get(page));
    assert_eq!(
        lost.collect::<Vec<_>>(),
        [0; PAGES],
        "writes lost of each page"
    );
}

#[test]
fn system_calls_that_write_are_held_too() {
    let Some(mut pages) = pages() else { return };
    if !held::holds_system_calls() {
        return println!("not tried: it is a right that this process does not have");
    }
    let memory = Memory::new(8);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (start, length) = (memory.start.addr(), memory.length);
        let is_over = &is_over;
        let reader = scope.spawn(move || {
            let zeros = std::fs::File::open("/dev/zero").unwrap();
            while !is_over.load(Ordering::Relaxed) {
                // SAFETY: the test's memory, of so many bytes, which nobody has a reference to.
                let read = unsafe { libc::read(zeros.as_raw_fd(), start as *mut _, length) };
                assert_eq!(read, length as isize, "{}", io::Error::last_os_error());
            }
        });
        for key in 0..300 {
            assert!(pages.share(key, memory.address(), length as u64).is_some());
            pages.leave(key);
        }
        is_over.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
}

#[test]
fn memory_that_was_given_back_before_its_region_stays_whose_it_is() {
    let Some(mut pages) = pages() else { return };
    let memory = Memory::new(3);
    for page in 0..3 {
        memory.set(page, 7);
    }
    pages
        .share(1, memory.address(), memory.length as u64)
        .unwrap();
    // Something else comes to lie in the middle.
    // SAFETY: in the place of a page that is the test's.
    let other = unsafe {
        libc::mmap(
            memory.start.add(PAGE_BYTES).cast(),
            PAGE_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
            -1,
            0,
        )
    };
    assert_ne!(other, libc::MAP_FAILED);
    memory.set(1, 9);
    pages.leave(1);
    assert_eq!([0, 1, 2].map(|page| memory.get(page)), [7, 9, 7]);
    let text = read_mappings().unwrap();
    assert!(can_move(
        &text,
        memory.start.addr(),
        memory.start.addr() + memory.length
    ));
}

#[test]
fn memory_in_the_place_of_what_was_given_back_is_another_region_s() {
    let Some(mut pages) = pages() else { return };
    let memory = Memory::new(3);
    let (start, length) = (memory.address(), memory.length as u64);
    let former = pages.share(1, start, length).unwrap();
    // Other memory, where that was.
    let other = reserve(memory.length).unwrap();
    // SAFETY: both are the test's.
    assert!(unsafe { put(other, memory.length, memory.start.addr()) });
    memory.set(0, 5);
    let shared = pages.share(2, start, length).unwrap();
    assert_ne!(shared.offset, former.offset);
    assert_eq!(memory.get(0), 5);
    // The former region had pages that nobody has any more.
    pages.leave(1);
    let window = pages
        .store()
        .window(shared.offset, PAGE_BYTES, Access::ReadWrite)
        .unwrap();
    word(&window).store(6, Ordering::Relaxed);
    assert_eq!(memory.get(0), 6);
    pages.leave(2);
    assert_eq!(memory.get(0), 6);
    assert_eq!(pages.free, BTreeMap::from([(0, pages.store().length())]));
}

#[test]
fn pages_that_are_not_all_the_regions_or_not_plain_memory_stay() {
    let Some(mut pages) = pages() else { return };
    let memory = Memory::new(4);
    let (start, page) = (memory.address(), PAGE_BYTES as u64);
    assert_eq!(pages.share(1, start + 8, page), None);
    assert_eq!(pages.share(1, start + 8, 2 * page - 9), None);
    assert_eq!(pages.share(1, u64::MAX - 9, 100), None);
    // Some of them are another region's.
    assert!(pages.share(2, start, 2 * page).is_some());
    assert_eq!(pages.share(3, start + page, 2 * page), None);
    assert_eq!(pages.share(3, start, 3 * page), None);
    assert!(pages.share(3, start + 2 * page, 2 * page).is_some());
    let file = Store::create("viaduct-test", 8 * page).unwrap();
    let mapped = file.window(0, 2 * PAGE_BYTES, Access::ReadWrite).unwrap();
    let mapped = mapped.range(0, 8).unwrap().addr().get() as u64;
    assert_eq!(pages.share(4, mapped, 2 * page), None);
    // The stack of this thread, and what it has beside.
    let local = [0_u8; 3 * PAGE_BYTES];
    let around = (&raw const local).addr() as u64 - 16 * page;
    assert_eq!(pages.share(5, around, 32 * page), None);
    // What a program does not write, and may not.
    let constant = Memory::new(1);
    // SAFETY: the test's memory, which nobody reads.
    let done = unsafe { libc::mprotect(constant.start.cast(), PAGE_BYTES, libc::PROT_READ) };
    assert_eq!(done, 0);
    assert_eq!(pages.share(5, constant.address(), page), None);
    for key in 1..6 {
        assert_eq!(pages.shares(key), key == 2 || key == 3);
    }
}

#[test]
fn parts_of_the_store_are_used_again_and_meet() {
    let Some(mut pages) = pages() else { return };
    let whole = pages.free.clone();
    let taken = [0; 4].map(|_| pages.take(0x3000).unwrap());
    assert_eq!(taken, [0, 0x3000, 0x6000, 0x9000]);
    pages.give_back(taken[1], 0x3000);
    assert_eq!(pages.take(0x1000), Some(0x3000));
    assert_eq!(pages.take(0x3000), Some(0xc000));
    for (offset, length) in [
        (0x6000, 0x3000),
        (0, 0x3000),
        (0x3000, 0x1000),
        (0xc000, 0x3000),
        (0x9000, 0x3000),
    ] {
        pages.give_back(offset, length);
    }
    assert_eq!(pages.free, whole);
    assert_eq!(pages.take(STORE_BYTES + 1), None);
}

/// In a process of its own, since what it is refused stays so.
#[test]
fn no_device_is_opened_that_is_to_share_memory_where_writers_cannot_be_held() {
    const NAME: &str =
        "shared::tests::no_device_is_opened_that_is_to_share_memory_where_writers_cannot_be_held";
    const INSIDE: &str = "VIADUCT_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        refusal::refuse(&[libc::SYS_userfaultfd]);
        let error = crate::devices()[0].open().unwrap_err();
        assert_eq!(error.errno(), libc::EOPNOTSUPP);
        assert!(error.to_string().contains("userfaultfd"), "{error}");
        return;
    }
    let mut inside = std::process::Command::new(std::env::current_exe().unwrap());
    inside
        .args(["--exact", NAME, "--nocapture"])
        .env(INSIDE, "1");
    let output = inside.env("VIADUCT_RDMA_SHARE_MEMORY", "1").output();
    let output = output.unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && printed.contains("1 passed"),
        "{printed}"
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("cannot be shared (--share-memory)"), "{said}");
}

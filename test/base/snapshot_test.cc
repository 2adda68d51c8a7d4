#include "base/snapshot.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace asterism::base {
namespace {

// Two halves that must always agree; a torn read would show two versions.
struct Version {
  explicit Version(int number) : left(number), right(number) {}
  int left;
  std::vector<int> padding = std::vector<int>(100, 0);
  int right;
};

TEST(SnapshotCell, IsEmptyBeforeTheFirstPublish) {
  EXPECT_EQ(SnapshotCell<Version>().Load(), nullptr);
}

TEST(SnapshotCell, AReaderKeepsItsVersion) {
  SnapshotCell<Version> cell;
  cell.Publish(std::make_shared<const Version>(1));
  const std::shared_ptr<const Version> first = cell.Load();
  cell.Publish(std::make_shared<const Version>(2));
  EXPECT_EQ(first->left, 1);
  EXPECT_EQ(cell.Load()->left, 2);
  EXPECT_EQ(first.use_count(), 1);
}

TEST(SnapshotCell, ReadersNeverSeeHalfAVersionNorGoBack) {
  constexpr int kVersions = 5000;
  SnapshotCell<Version> cell;
  cell.Publish(std::make_shared<const Version>(0));
  std::atomic<bool> sound = true;
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      int last = 0;
      while (last < kVersions) {
        const std::shared_ptr<const Version> version = cell.Load();
        if (version->left != version->right || version->left < last) {
          sound = false;
          return;
        }
        last = version->left;
      }
    });
  }
  for (int number = 1; number <= kVersions; ++number) {
    cell.Publish(std::make_shared<const Version>(number));
  }
  for (std::thread& reader : readers) {
    reader.join();
  }
  EXPECT_TRUE(sound);
}

// The old version dies outside the lock, so its destructor may use the cell.
TEST(SnapshotCell, ADestructorMayReadTheCell) {
  struct Reentrant {
    const SnapshotCell<Reentrant>* cell;
    bool* saw_successor;
    ~Reentrant() { *saw_successor = *saw_successor || (cell->Load() != nullptr); }
  };
  bool saw_successor = false;
  SnapshotCell<Reentrant> cell;
  cell.Publish(std::make_shared<const Reentrant>(Reentrant{&cell, &saw_successor}));
  saw_successor = false;
  cell.Publish(nullptr);
  EXPECT_FALSE(saw_successor);
}

}  // namespace
}  // namespace asterism::base

#include "scheduler/gang_queue.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/rng.h"
#include "cluster_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::scheduler {
namespace {

using ::testing::ElementsAre;

absl::Time At(int64_t seconds) {
  return absl::FromUnixSeconds(seconds);
}

QueuedGang Entry(const std::string& uid, int32_t priority, int64_t created,
                 const std::string& name = "") {
  QueuedGang gang;
  gang.uid = uid;
  gang.name = name.empty() ? "default/" + uid : name;
  gang.queue = "research";
  gang.priority = priority;
  gang.created = At(created);
  gang.gpus = 8;
  gang.waiting_since = At(created);
  return gang;
}

std::vector<std::string> Order(const GangQueue& queue) {
  std::vector<std::string> uids;
  queue.ForEach([&](const QueuedGang& gang) { uids.push_back(gang.uid); });
  return uids;
}

TEST(GangQueue, OrdersByPriorityThenAgeThenName) {
  GangQueue queue;
  queue.Put(Entry("young", 0, 50));
  queue.Put(Entry("old", 0, 10));
  queue.Put(Entry("urgent", 7, 90));
  queue.Put(Entry("idle", -7, 1));
  queue.Put(Entry("x", 0, 50, "default/aaa"));
  queue.Put(Entry("w", 0, 50, "default/aaa"));
  EXPECT_THAT(Order(queue), ElementsAre("urgent", "old", "w", "x", "young", "idle"));
  EXPECT_EQ(queue.Position("urgent"), 1U);
  EXPECT_EQ(queue.Position("idle"), 6U);
  EXPECT_EQ(queue.Position("nobody"), 0U);
  EXPECT_EQ(queue.size(), 6U);
}

TEST(GangQueue, AChangeMovesTheGangButNotTheStartOfItsWait) {
  GangQueue queue;
  queue.Put(Entry("a", 0, 10));
  queue.Put(Entry("b", 0, 20));
  QueuedGang changed = Entry("b", 9, 20);
  changed.waiting_since = At(1000);
  changed.gpus = 64;
  queue.Put(changed);
  EXPECT_THAT(Order(queue), ElementsAre("b", "a"));
  EXPECT_EQ(queue.Find("b")->waiting_since, At(20));
  EXPECT_EQ(queue.Find("b")->gpus, 64);
  EXPECT_TRUE(queue.Remove("b"));
  EXPECT_FALSE(queue.Remove("b"));
  EXPECT_EQ(queue.Find("b"), nullptr);
  queue.Put(changed);
  EXPECT_EQ(queue.Find("b")->waiting_since, At(1000)) << "it began to wait again";
}

TEST(GangQueue, TellsWhereANewGangWouldStand) {
  GangQueue queue;
  EXPECT_EQ(queue.PositionFor(Entry("x", 0, 5)), 1u);
  queue.Put(Entry("a", 0, 1));
  queue.Put(Entry("b", 0, 9));
  EXPECT_EQ(queue.PositionFor(Entry("x", 0, 5)), 2u);
  EXPECT_EQ(queue.PositionFor(Entry("x", 7, 5)), 1u);
  EXPECT_EQ(queue.PositionFor(Entry("x", -7, 5)), 3u);
}

TEST(GangQueue, RemovesAGangByTheUidThatItHoldsItself) {
  GangQueue queue;
  queue.Put(Entry("a", 0, 10));
  EXPECT_TRUE(queue.Remove(queue.Find("a")->uid));
  EXPECT_TRUE(queue.empty());
}

TEST(GangQueue, ForgetsTheOrderOfItsChanges) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    base::Rng rng(seed);
    std::map<std::string, QueuedGang> model;
    GangQueue queue;
    for (int step = 0; step < 100; ++step) {
      const std::string uid = "g" + std::to_string(rng.Below(12));
      if (rng.Chance(0.3)) {
        EXPECT_EQ(queue.Remove(uid), model.erase(uid) > 0);
      } else {
        const QueuedGang gang =
            Entry(uid, static_cast<int32_t>(rng.Below(3)), static_cast<int64_t>(rng.Below(3)));
        model[uid] = gang;
        queue.Put(gang);
      }
    }
    GangQueue fresh;
    for (const auto& [uid, gang] : model) {
      fresh.Put(gang);
    }
    EXPECT_EQ(Order(queue), Order(fresh)) << "seed " << seed;
    const std::vector<std::string> order = Order(queue);
    for (size_t i = 0; i < order.size(); ++i) {
      EXPECT_EQ(queue.Position(order[i]), i + 1);
    }
  }
}

// A pass tries every waiting gang in order and books what fits.
class Passes {
 public:
  explicit Passes(TestCluster& cluster) : cluster_(cluster) {}

  void Submit(const std::string& uid, int64_t pods, int64_t now) {
    requests_[uid] = cluster_.Request(pods, 1);
    requests_[uid].gang_uid = uid;
    queue_.Put(Entry(uid, 0, now));
  }

  void Run(int64_t now) {
    std::vector<std::string> started;
    queue_.ForEach([&](const QueuedGang& gang) {
      const PlacementRequest& request = requests_[gang.uid];
      const PlacementOutcome outcome = Place(request, cluster_.ledger());
      if (const auto* placed = std::get_if<Placed>(&outcome)) {
        cluster_.Book(gang.uid, request, *placed);
        ends_[gang.uid] = now + 30;
        started.push_back(gang.uid);
      }
    });
    for (const std::string& uid : started) {
      queue_.Remove(uid);
    }
  }

  // Ends the gangs whose time has come; true when there were any.
  bool End(int64_t now) {
    std::vector<std::string> ended;
    for (const auto& [uid, end] : ends_) {
      if (end == now) {
        ended.push_back(uid);
      }
    }
    for (const std::string& uid : ended) {
      cluster_.ledger().RemoveGang(uid);
      ends_.erase(uid);
      ++finished_;
    }
    return !ended.empty();
  }

  // No gang holds a part: each has all its blocks, and no GPU is held twice.
  void ExpectWhole() const {
    for (const std::shared_ptr<const GangView>& gang : cluster_.ledger().Gangs()) {
      EXPECT_EQ(static_cast<int64_t>(gang->blocks.size()), requests_.at(gang->uid).pods);
    }
    for (size_t node = 0; node < cluster_.ledger().node_count(); ++node) {
      EXPECT_GE(cluster_.ledger().Free(NodeId(node))[cluster_.gpu_slot()], 0);
    }
  }

  int finished() const { return finished_; }

 private:
  TestCluster& cluster_;
  GangQueue queue_;
  std::map<std::string, PlacementRequest> requests_;
  std::map<std::string, int64_t> ends_;
  int finished_ = 0;
};

TEST(GangQueueCase, Gang01SixtyMixedJobsOnTwoNodesAllFinish) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    for (const bool burst : {false, true}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + (burst ? " burst" : ""));
      base::Rng rng(seed);
      TestCluster cluster({"node", "leaf", "cluster"}, 8);
      cluster.AddNode("n1", {"L1"});
      cluster.AddNode("n2", {"L1"});
      cluster.Build();
      Passes passes(cluster);
      int64_t gpu_seconds = 0;
      int submitted = 0;
      int64_t now = 0;
      for (; passes.finished() < 60 && now < 10'000; ++now) {
        bool changed = passes.End(now);
        while (submitted < 60 && (burst || now == submitted * 15)) {
          const int64_t pods = 1 + static_cast<int64_t>(rng.Below(8));
          gpu_seconds += pods * 30;
          passes.Submit("job-" + std::to_string(submitted++), pods, now);
          changed = true;
        }
        if (changed) {
          passes.Run(now);
          passes.ExpectWhole();
        }
      }
      ASSERT_EQ(passes.finished(), 60);
      if (burst) {
        const double bound = static_cast<double>(gpu_seconds) / 16;
        EXPECT_LE(static_cast<double>(now - 1), 1.1 * bound);
      }
    }
  }
}

}  // namespace
}  // namespace asterism::scheduler

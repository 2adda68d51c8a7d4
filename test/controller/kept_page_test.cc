#include "controller/kept_page.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace asterism::controller {
namespace {

TEST(KeptPage, IsMadeOnceForEachPicture) {
  KeptPage page;
  int made = 0;
  const auto get = [&](const std::shared_ptr<const int>& view,
                       const std::shared_ptr<const int>& state, bool leading) {
    return page.Get({view, state}, leading, [&] { return std::to_string(++made); });
  };
  const auto view = std::make_shared<const int>(1);
  const auto state = std::make_shared<const int>(1);
  EXPECT_EQ(get(view, state, true), "1");
  EXPECT_EQ(get(view, state, true), "1");
  EXPECT_EQ(get(view, state, false), "2") << "who leads is a part of it";
  EXPECT_EQ(get(view, std::make_shared<const int>(1), false), "3") << "another picture";
  EXPECT_EQ(get(std::make_shared<const int>(1), state, false), "4");
}

TEST(KeptPage, APictureAtTheSameAddressIsAnother) {
  KeptPage page;
  int made = 0;
  for (int round = 1; round <= 100; ++round) {
    // As a rule where the one before was.
    const auto view = std::make_shared<const int>(round);
    EXPECT_EQ(page.Get({view, nullptr}, true, [&] { return std::to_string(++made); }),
              std::to_string(round));
  }
}

}  // namespace
}  // namespace asterism::controller

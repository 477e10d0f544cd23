// Real scenes that nobody here wrote. They are not part of the project: where the folder is absent, these tests say so.
#include "random.h"
#include "world.h"

#include <BulletWorldImporter/btBulletWorldImporter.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>

namespace linchpin::test::data_test {
namespace {

std::string scene(const char* name) {
  const char* given = std::getenv("LINCHPIN_SHARED_DATA");
  const std::filesystem::path folder =
      given ? std::filesystem::path(given) : std::filesystem::path(LINCHPIN_SOURCE_DIR) / ".." / "shared" / "data";
  const auto file = folder / "bullet" / name;
  return std::filesystem::exists(file) ? file.string() : "";
}

// Declared after the world and before the solver: what was loaded goes in between.
struct Loaded {
  explicit Loaded(btDiscreteDynamicsWorld& world) : importer(&world) {}
  ~Loaded() { importer.deleteAllData(); }
  btBulletWorldImporter importer;
};

TEST(Data, TheSpiderStaysTogetherKeepsItsLimitsAndComesToRest) {
  const std::string file = scene("spider.bullet");
  if (file.empty()) GTEST_SKIP() << "spider.bullet is not here (set LINCHPIN_SHARED_DATA)";
  TestWorld w;
  Loaded loaded(w.world);
  ASSERT_TRUE(loaded.importer.loadFile(file.c_str()));
  w.world.setGravity(btVector3(0, btScalar(-9.81), 0));
  bullet::Solver exact(w.world);
  double gap = 0, limit = 0, books = 0;
  for (int i = 0; i < 5 * 240; ++i) {
    w.step();
    if (i < 10) continue;
    for (const Reaction& r : exact.reactions()) gap = std::max(gap, r.gap);
    books = std::max(books, worst_books(exact));
    for (int c = 0; c < w.world.getNumConstraints(); ++c)
      if (auto* h = dynamic_cast<btHingeConstraint*>(w.world.getConstraint(c)))
        limit = std::max(
            {limit, double(h->getHingeAngle() - h->getUpperLimit()), double(h->getLowerLimit() - h->getHingeAngle())});
  }
  EXPECT_LE(gap, precision(1e-9, 2e-5));
  EXPECT_LE(limit, 0.15);  // the native solver's own: 0.05
  EXPECT_LE(books, 1e-11);
  EXPECT_EQ(exact.counts().fallbacks, 0);
  EXPECT_GE(exact.counts().largest_correction, 1e-3);  // it loads 9.6 mm apart
  int awake = 0;
  for (int i = 0; i < w.world.getNumCollisionObjects(); ++i) {
    const btCollisionObject* body = w.world.getCollisionObjectArray()[i];
    awake += !body->isStaticOrKinematicObject() && body->isActive();
  }
  EXPECT_EQ(awake, 0);
}

TEST(SlowData, TheFracturingWallBreaksAndSaysWhatIsUndetermined) {
  const std::string file = scene("testFileFracture.bullet");
  if (file.empty()) GTEST_SKIP() << "testFileFracture.bullet is not here (set LINCHPIN_SHARED_DATA)";
  TestWorld w;
  Loaded loaded(w.world);
  ASSERT_TRUE(loaded.importer.loadFile(file.c_str()));
  w.world.setGravity(btVector3(0, btScalar(-9.81), 0));
  bullet::Solver exact(w.world);
  w.step(1);
  const std::string text = exact.summary();
  EXPECT_NE(text.find("594 of 2628 constraint equations are independent"), std::string::npos) << text;
  EXPECT_NE(text.find("undetermined"), std::string::npos) << text;
  w.step(5);
  EXPECT_LE(largest_gap(exact), precision(1e-9, 1e-4));
}

// Under loads that strain every weld, as its own hardly does: what all constraints together do to each body, of its
// blocks one by one, is what the dense reference says, and so is the rank.
TEST(SlowData, ForcesOfTheFracturingWallAreThoseOfTheReference) {
  const std::string file = scene("testFileFracture.bullet");
  if (file.empty()) GTEST_SKIP() << "testFileFracture.bullet is not here (set LINCHPIN_SHARED_DATA)";
  TestWorld w;
  Loaded loaded(w.world);
  ASSERT_TRUE(loaded.importer.loadFile(file.c_str()));
  bullet::Solver exact(w.world);
  w.step(1);
  Random random(1);
  std::set<std::string> seen;
  int rank = 0, rows = 0;
  for (const Reaction& r : exact.reactions()) {
    if (seen.contains(r.name)) continue;
    ConstrainedProblem block = exact.problem(r.name);
    seen.insert(block.constraints.begin(), block.constraints.end());
    if (block.m() == 0) continue;
    for (double& Q : block.Q) Q += random.uniform(-100, 100);
    const auto sparse = linchpin::solve(block, {.backend = Backend::sparse}),
               dense = linchpin::solve(block, {.backend = Backend::dense});
    EXPECT_EQ(sparse.rank, dense.rank);
    EXPECT_LE((sparse.ideal - dense.ideal).cwiseAbs().maxCoeff(), 1e-9 * dense.ideal.cwiseAbs().maxCoeff());
    rank += sparse.rank;
    rows += block.m();
  }
  EXPECT_EQ(rank, 594);
  EXPECT_EQ(rows, 2628);
}

}  // namespace
}  // namespace linchpin::test::data_test

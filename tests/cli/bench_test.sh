# linchpin bench: one line per run with time beside error; mistakes are usage errors.
# Called as: bench_test.sh <bin dir> <source dir>
source "$(dirname "$0")/common.bash" "$@"
[ -x "$bin/linchpin-bench-bullet-float64" ] || { echo "skipped: no bench program in double precision"; exit 0; }

expect 0 bench W1:10 W1s:10 W5a W4:2 --with exact,si:10 --duration 0.2 --json
holds '(.rows | length) == 8'
for key in ns_per_row_solver ratio_to_si10_solver us_per_step ratio_to_si10_step max_gap_m force_error_rel peak_mb backend fallbacks; do
  holds "[.rows[] | has(\"$key\")] | all"
done
holds '[.rows[] | select(.solver == "exact") | .max_gap_m <= 1e-12] | all'
holds '[.rows[] | select(.solver == "exact" and .force_error_rel != null) | .force_error_rel <= 1e-10] | all'
holds '.rows[] | select(.scene == "W1s" and .solver == "si:10") | .force_error_rel > 0.1'

# Laws: one more back-solve for smooth ones, no other factorisation; more for dry friction only until it slides.
expect 0 bench W1:10 --with exact,law,dry --duration 0.5 --json
holds '[.rows[] | .factorizations_per_step] | . == [1, 1, 1]'
holds '.rows[] | select(.solver == "exact") | .law_solves_per_step == 0'
holds '.rows[] | select(.solver == "law") | .law_solves_per_step > 0.9 and .law_solves_per_step <= 1'
holds '.rows[] | select(.solver == "dry") | .law_solves_per_step > 1 and .law_solves_per_step < 16'

# Robots as multibodies: exact beside native.
expect 0 bench R1 R3:20 R4 --duration 0.2 --json
holds '(.rows | length) == 6'
holds '[.rows[] | select(.solver == "exact") | .max_gap_m <= 1e-12 and .fallbacks == 0] | all'
holds '[.rows[] | .us_per_step > 0 and .status == "ok"] | all'

expect 2 bench W9
says 'W5b' # the known ones are named
expect 2 bench W1:10 --with gauss
expect 2 bench W1:10 --duration 0
says '0 is not above 0'
expect 2 bench W1:10 --budget nan
says 'nan is not above 0'
done_testing

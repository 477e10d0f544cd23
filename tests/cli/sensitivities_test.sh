# `linchpin sensitivities` against closed forms and differences of a sweep, and what it refuses.
# Called as: sensitivities_test.sh <bin dir> <source dir>
source "$(dirname "$0")/common.bash" "$@"
scenes=$source/demos/scenes
cd "$scratch" || exit 1

# A bead on a rough circle: its speed at the bottom, in closed form, and the event of its first stop.
expect 0 sensitivities "$scenes/rough-circle.toml" --to mu --column 'norm(bead.velocity)' --until bead.x --json
holds '.method == "rk4" and .parameters == ["mu"] and .values == [0.2] and (.t_derivatives | length) == 1 and .events == []'
holds '.columns[0] | .column == "norm(bead.velocity) [m/s]" and (.value - 3.185389354168705 | fabs) < 1e-9 and
  (.derivatives[0] + 5.900044573944802 | fabs) < 1e-9'
expect 0 sensitivities "$scenes/rough-circle.toml" --to mu,g --column 'norm(bead.velocity)' --until bead.x
prints '^at t = 0.6540673 s, where bead.x crosses zero, with rk4$'
prints '^norm\(bead.velocity\) \[m/s\] +3.185389 +-5.900045 +0.1623542$'
expect 0 sensitivities "$scenes/rough-circle.toml" --to mu --column bead.y --duration 1.2 --csv table.csv
prints '^circle turns +1.101174 +-0.2578898$'
prints '^wrote table.csv$'
[[ $(head -1 table.csv) == 't [s],bead.y [m],d(bead.y)/d(mu)' ]] || fail "titles: $(head -1 table.csv)"
[[ $(wc -l <table.csv) == 1202 ]] || fail "$(wc -l <table.csv) lines"

# The derivative of a run is the difference of two.
expect 0 sweep "$scenes/pendulum.toml" --set L=1.4999,1.5001 --duration 0.5 --column bob.x --out runs.csv
first=$(column runs.csv 'bob.x [m]' 1) second=$(column runs.csv 'bob.x [m]' 2)
expect 0 sensitivities "$scenes/pendulum.toml" --to L --duration 0.5 --column bob.x --json
holds ".columns[-1].derivatives[0] - (($second) - ($first)) / 0.0002 | fabs < 1e-5"

# What it refuses.
expect 2 sensitivities "$scenes/rough-circle.toml"
expect 4 sensitivities "$scenes/rough-circle.toml" --to nu --column bead.x
says "a parameter is no number in \[params\] of the scene: .*unknown name 'nu'; did you mean \"mu\""
expect 4 sensitivities "$scenes/rough-circle.toml" --to mu --column 'work(circle)'
says '"work\(circle\)" depends on the motion before'
expect 4 sensitivities "$scenes/rough-circle.toml" --to mu
says 'there is no quantity to differentiate\. Add \[\[log\]\] to the scene, or a quantity such as norm\(body.velocity\) by --column'
expect 4 sensitivities "$scenes/rough-circle.toml" --to mu --until 'bead.x - 10'
says '"bead.x - 10" did not cross zero within 1'
expect 4 sensitivities "$scenes/n-four-bar.toml" --to N --column 1
says 'no system can be made for values of "N" next to 2: repeat: count is a whole number' 
expect 2 sensitivities model.xml --to mu --dt -1
done_testing

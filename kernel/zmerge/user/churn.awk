# SPDX-License-Identifier: GPL-2.0-only
#
# Draws two runs of churn:  awk -f user/churn.awk before.txt after.txt >churn.svg
# The memory of the index in both, and the memory of 16 bytes for each entry for comparison.
FNR == 1 { run++ }
{ y[run, FNR] = $3; least[FNR] = 16 * $2; steps = FNR; if ($3 > most) most = $3 }
function at(step) { return 70 + 620 * (step - 1) / (steps - 1) }
function up(bytes) { return 300 - 260 * bytes / most }
function line(run, colour, from) {
	printf "<polyline fill='none' stroke='%s' stroke-width='2' points='", colour
	for (from = 1; from <= steps; from++) printf "%.1f,%.1f ", at(from), up(y[run, from])
	print "'/>"
}
END {
	print "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 720 350' font-family='sans-serif' font-size='13'>"
	print "<rect width='720' height='350' fill='white'/>"
	printf "<polygon fill='#dddddd' points='70,300 "
	for (step = 1; step <= steps; step++) printf "%.1f,%.1f ", at(step), up(least[step])
	print "690,300'/>"
	for (mib = 0; mib * 1048576 <= most; mib++)
		printf "<text x='62' y='%.1f' text-anchor='end'>%d</text><line x1='70' x2='690' y1='%.1f' y2='%.1f' stroke='#eeeeee'/>\n",
			up(mib * 1048576) + 4, mib, up(mib * 1048576), up(mib * 1048576)
	line(1, "#c44e52")
	line(2, "#4c72b0")
	print "<text x='70' y='24'>MiB of the index, 131,072 slots: filled, emptied to 1 %, filled to 50 %, emptied, filled</text>"
	print "<rect x='70' y='318' width='12' height='12' fill='#c44e52'/><text x='88' y='329'>as it was</text>"
	print "<rect x='190' y='318' width='12' height='12' fill='#4c72b0'/><text x='208' y='329'>now</text>"
	print "<rect x='280' y='318' width='12' height='12' fill='#dddddd'/><text x='298' y='329'>16 bytes for each entry</text>"
	print "</svg>"
}

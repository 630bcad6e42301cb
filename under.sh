. /work/wt/brief/env field
mkdir -p /tmp/field/d; cd /tmp/field/d; 
(sleep 5; rm -rf /tmp/field/d) & 
env -u TUNE_VFL_HOME timeout 100 nice -n 5 tune-vfl evaluate -d breast_cancer -a norm --seeds 3 --set training.epochs=200 2>&1 | tail -5 | cut -c1-300; echo "rc ${PIPESTATUS[0]}"
cd /tmp/field; mkdir -p d; cd d
(sleep 14; echo removed; ls /tmp/field/d; rm -rf /tmp/field/d) & 
time env -u TUNE_VFL_HOME timeout 200 nice -n 5 tune-vfl search /tmp/field/gone.yaml --trials 200 --set training.epochs=40 2>&1 | tail -12 | cut -c1-400; echo "rc ${PIPESTATUS[0]}"
